# Completion of kubectl-cascade for fish. In ~/.config/fish/config.fish:
#
#     kubectl cascade completion fish | source
#
# For `kubectl cascade` it is kubectl's own completion that asks, through a program named kubectl_complete-cascade.
# The plugin itself is that program under another name; in a folder of PATH:
#
#     ln -s (command -v kubectl-cascade) ~/.local/bin/kubectl_complete-cascade

function __kubectl_cascade
    set -l words (commandline -opc)
    set -l answer ($words[1] __complete $words[2..-1] (commandline -ct) 2>/dev/null)
    if test "$answer[-1]" = ":0"
        __fish_complete_path (commandline -ct)
    else
        string match --invert --regex '^:' -- $answer
    end
end
complete --command kubectl-cascade --no-files --arguments '(__kubectl_cascade)'
