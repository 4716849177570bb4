# What TAB completes after "zoo", in bash.  Nothing is started at TAB, so print it anew after an update.
#
#   eval "$(zoo completion bash)"                # in ~/.bashrc
#   zoo() { python -m zoo "$@"; }                # before it, where the command "zoo" is not installed
#   complete -o default -F _zoo python python3   # after it, for "python -m zoo" as it is written; python's other
#                                                # arguments are then completed as files, whatever did it before

_zoo_runs() { # folders that begin with $1 and hold a run, or else those below runs/
    local file
    for file in "$1"*/config.yaml; do
        [[ -f $file ]] && COMPREPLY+=("${file%/config.yaml}")
    done
    [[ $1 == */* ]] && return
    for file in runs/*/config.yaml; do
        [[ -f $file && $file == "$1"* ]] && COMPREPLY+=("${file%/config.yaml}")
    done
}

_zoo() {
    local IFS=$'\n' first=1 prefix='' words='' files=''
    local current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]}
    COMPREPLY=()
    if [[ ${COMP_WORDS[0]##*/} == python* ]]; then
        [[ ${COMP_WORDS[1]} == -m && ${COMP_WORDS[2]} == zoo ]] || return
        first=3
    fi
    ((COMP_CWORD >= first)) || return
    if [[ $current == = ]]; then # bash makes three words of --config=x,
        current=''
    elif [[ $option == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ $current == -*=* ]]; then # and one where COMP_WORDBREAKS has no =
        option=${current%%=*} prefix=${current%%=*}=
        current=${current#*=}
    fi
    case $option in
        -c | --config) words='@configs@' files='*.y*ml' ;;
        --model) words='@tasks@' ;;
        --data) words='@data@' ;;
        --model.*backbone) words='@backbones@' ;;
        --model.*tokenizer) words='@tokenizers@' ;;
        -*) ;; # a value that we do not know: readline's own files
        *)
            case $((COMP_CWORD - first)):${COMP_WORDS[first]}:$current in
                0:*) words='@verbs@' ;;
                1:fit:-* | 1:validate:-* | 1:test:-* | 1:predict:-*) words='@options@' ;;
                *:generate:-*) words='@generating@' ;;
                1:fit:* | 1:validate:* | 1:test:* | 1:predict:* | 1:generate:* | *:compare:*) _zoo_runs "$current" ;;
                *:fit:* | *:validate:* | *:test:* | *:predict:*) words='@options@' ;;
                *:generate:*) words='@generating@' ;;
                1:list:*) words='@kinds@' ;;
                *:diff:*) words='@models@' ;;
                1:completion:*) words='@shells@' ;;
            esac
            ;;
    esac
    COMPREPLY+=($(IFS=' ' && compgen -W "$words" -- "$current"))
    if [[ -n $files ]]; then
        compopt -o filenames 2> /dev/null # a folder gets a slash and no space
        COMPREPLY+=($(compgen -d -- "$current") $(compgen -f -X "!$files" -- "$current"))
    fi
    COMPREPLY=("${COMPREPLY[@]/#/$prefix}")
}

complete -o default -F _zoo zoo
