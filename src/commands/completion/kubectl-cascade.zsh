#compdef kubectl-cascade
# Completion of kubectl-cascade for zsh. In ~/.zshrc, after compinit:
#
#     source <(kubectl cascade completion zsh)
#
# For `kubectl cascade` it is kubectl's own completion that asks, through a program named kubectl_complete-cascade.
# The plugin itself is that program under another name; in a folder of PATH:
#
#     ln -s "$(command -v kubectl-cascade)" ~/.local/bin/kubectl_complete-cascade

_kubectl_cascade() {
    local -a answer values shown
    local line value
    answer=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    for line in "${answer[@]}"; do
        [[ -z "$line" || "$line" == :* ]] && continue
        value="${line%%$'\t'*}"
        values+=("$value")
        if [[ "$line" == *$'\t'* ]]; then
            shown+=("$value  -- ${line#*$'\t'}")
        else
            shown+=("$value")
        fi
    done
    case "${answer[-1]}" in
        :0) _files ;;
        :6) compadd -S '' -l -d shown -a values ;;
        *) compadd -l -d shown -a values ;;
    esac
}
compdef _kubectl_cascade kubectl-cascade
