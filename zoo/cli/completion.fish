# What TAB completes after "zoo", in fish.  Nothing is started at TAB, so print it anew after an update.
#
#   zoo completion fish > ~/.config/fish/completions/zoo.fish
#   function zoo; python -m zoo $argv; end    # where the command "zoo" is not installed; fish leaves "python -m zoo"
#                                             # itself to what completes python

function __zoo_runs
    for file in runs/*/config.yaml
        string replace /config.yaml '' $file
    end
    __fish_complete_directories
end

set -l training fit validate test predict
complete -c zoo -n __fish_use_subcommand -f -a '@verbs@'
complete -c zoo -n "__fish_seen_subcommand_from $training generate compare" -f -a '(__zoo_runs)'
complete -c zoo -n '__fish_seen_subcommand_from list' -f -a '@kinds@'
complete -c zoo -n '__fish_seen_subcommand_from diff' -f -a '@models@ (__fish_complete_directories)'
complete -c zoo -n '__fish_seen_subcommand_from completion' -f -a '@shells@'
complete -c zoo -n "__fish_seen_subcommand_from $training" -s c -l config -x -a '@configs@ (__fish_complete_suffix .yaml)'
complete -c zoo -n "__fish_seen_subcommand_from $training" -l model -x -a '@tasks@'
complete -c zoo -n "__fish_seen_subcommand_from $training" -l data -x -a '@data@'
complete -c zoo -n "__fish_seen_subcommand_from $training" -l model.backbone -x -a '@backbones@'
complete -c zoo -n "__fish_seen_subcommand_from $training" -l model.tokenizer -x -a '@tokenizers@'
complete -c zoo -n "__fish_seen_subcommand_from $training" -l data.root -r -F
complete -c zoo -n "__fish_seen_subcommand_from $training" -l ckpt_path -r -F
complete -c zoo -n '__fish_seen_subcommand_from compare schema train-tokenizer' -l out -r -F
for option in @options@
    set -l name (string replace -- -- '' $option)
    contains -- $name config model data model.backbone model.tokenizer data.root ckpt_path
    or complete -c zoo -n "__fish_seen_subcommand_from $training" -l $name
end
set -l files ckpt_path from file image audio draft out
for option in @generating@
    set -l name (string replace -- -- '' $option)
    if contains -- $name $files
        complete -c zoo -n '__fish_seen_subcommand_from generate' -l $name -r -F
    else
        complete -c zoo -n '__fish_seen_subcommand_from generate' -l $name
    end
end
