"""Twelve kinds of typo in a config: what is written, laid over the small config of the tests, and what must be said."""

# The config that the typo is laid over is ``tests.conftest.DIGITS``; the file with the typo is called bad.yaml.
BACKBONE = "model: {init_args: {backbone: {%s}}}\n"

TYPOS = {  # kind -> (the config's text, the line that answers it)
    "an argument of the trainer": (
        "trainer:\n  max_epoch: 1\n",
        "bad.yaml:2: trainer has no argument 'max_epoch'; did you mean 'max_epochs'?",
    ),
    "a section": (
        "trainer: {max_epochs: 1}\nmodle: {class_path: Classify}\n",
        "bad.yaml:2: there is no section 'modle'; did you mean 'model'?",
    ),
    "an argument of a part": (
        BACKBONE % "init_args: {dimm: 8}",
        "bad.yaml:1: ViT has no argument 'dimm'; did you mean 'dim'?",
    ),
    "a class": (
        BACKBONE % "class_path: ViTT",
        "bad.yaml:1: there is no class 'ViTT'; did you mean 'ViT'?",
    ),
    "a task": (
        "model: {class_path: Clasify}\n",
        "bad.yaml:1: there is no class 'Clasify'; did you mean 'Classify'?",
    ),
    "another library's name": (
        "model:\n  init_args:\n    optimizer: {class_path: AdamW, init_args: {learning_rate: 0.1}}\n",
        "bad.yaml:3: AdamW has no argument 'learning_rate'; did you mean 'lr'?",
    ),
    "an optimizer": (
        "model: {init_args: {optimizer: {class_path: AdamWW, init_args: {lr: 0.1}}}}\n",
        "bad.yaml:1: there is no class 'AdamWW'; did you mean 'AdamW'?",
    ),
    "an argument of a callback": (
        "trainer:\n  callbacks:\n  - {class_path: EarlyStopping, init_args: {moniter: val/loss}}\n",
        "bad.yaml:3: EarlyStopping has no argument 'moniter'; did you mean 'monitor'?",
    ),
    "a callback": (
        "trainer:\n  callbacks:\n  - {class_path: EarlyStoping}\n",
        "bad.yaml:3: there is no class 'EarlyStoping'; did you mean 'EarlyStopping'?",
    ),
    "a word for a number": (
        "trainer: {max_epochs: two}\n",
        "bad.yaml:1: trainer.max_epochs: expected int, got 'two'",
    ),
    "a word that is none of the choices": (
        "trainer: {precision: bf16-mixd}\n",
        "bad.yaml:1: trainer.precision: 'bf16-mixd' is none of its choices; did you mean 'bf16-mixed'?",
    ),
    "an argument of the data": (
        "data:\n  init_args:\n    batchsize: 3\n",
        "bad.yaml:3: Images has no argument 'batchsize'; did you mean 'batch_size'?",
    ),
}
