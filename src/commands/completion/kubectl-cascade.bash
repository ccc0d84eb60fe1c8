# Completion of kubectl-cascade for bash. In ~/.bashrc:
#
#     source <(kubectl cascade completion bash)
#
# For `kubectl cascade` it is kubectl's own completion that asks, through a program named kubectl_complete-cascade.
# The plugin itself is that program under another name; in a folder of PATH:
#
#     ln -s "$(command -v kubectl-cascade)" ~/.local/bin/kubectl_complete-cascade

__kubectl_cascade() {
    local line words current answer directive candidate value breaks
    # Bash has split the line at = and : too; the plugin wants its words as the shell will pass them.
    line="${COMP_LINE:0:COMP_POINT}"
    read -ra words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    current="${words[-1]}"
    COMPREPLY=()
    answer="$("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)" || return
    directive="${answer##*$'\n'}"
    # What is before the last word break stands on the line already.
    breaks="${current%"${current##*[=:]}"}"
    while IFS='' read -r candidate; do
        [[ -z "$candidate" || "$candidate" == :* ]] && continue
        value="${candidate%%$'\t'*}"
        [[ "$value" == "$current"* ]] && COMPREPLY+=("${value#"$breaks"}")
    done <<< "$answer"
    if [[ "$directive" == ":0" ]]; then
        compopt -o default 2>/dev/null
    elif [[ "$directive" == ":6" ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F __kubectl_cascade kubectl-cascade
