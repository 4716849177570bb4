# What TAB completes after "zoo", in zsh.  Nothing is started at TAB, so print it anew after an update.
#
#   eval "$(zoo completion zsh)"      # in ~/.zshrc, after compinit
#   zoo() { python -m zoo "$@"; }     # where the command "zoo" is not installed; zsh leaves "python -m zoo" itself to
#                                     # what completes python

_zoo() {
    local option=$words[CURRENT-1]
    if [[ $words[CURRENT] == -*=* ]]; then
        option=${words[CURRENT]%%=*}
        compset -P '*='
    fi
    case $option in
        -c | --config)
            compadd -- @configs@
            _files -g '*.y*ml'
            ;;
        --model) compadd -- @tasks@ ;;
        --data) compadd -- @data@ ;;
        --model.*backbone) compadd -- @backbones@ ;;
        --model.*tokenizer) compadd -- @tokenizers@ ;;
        -*) _files ;;
        *)
            case $((CURRENT - 2)):$words[2]:$words[CURRENT] in
                0:*) compadd -- @verbs@ ;;
                1:fit:-* | 1:validate:-* | 1:test:-* | 1:predict:-*) compadd -- @options@ ;;
                *:generate:-*) compadd -- @generating@ ;;
                1:fit:* | 1:validate:* | 1:test:* | 1:predict:* | 1:generate:* | *:compare:*)
                    compadd -- runs/*/config.yaml(N:h)
                    _files -/
                    ;;
                *:fit:* | *:validate:* | *:test:* | *:predict:*) compadd -- @options@ ;;
                *:generate:*) compadd -- @generating@ ;;
                1:list:*) compadd -- @kinds@ ;;
                *:diff:*)
                    compadd -- @models@
                    _files -/
                    ;;
                1:completion:*) compadd -- @shells@ ;;
                *) _files ;;
            esac
            ;;
    esac
}

compdef _zoo zoo
