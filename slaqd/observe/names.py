"""What the names of columns say: which may be a loss, a step, a clock.

Names alone decide, in an order that fits the frameworks' own loggers.
"""

from __future__ import annotations

import re


def _list(text: str) -> tuple[str, ...]:
    """Write a list of words as one text."""
    return tuple(text.split())


_WORDS = re.compile(r"[A-Z]?[a-z]+[0-9]*|[A-Z]+(?![a-z])[0-9]*|[0-9]+")

_PLACE = frozenset(_list("train training trn tr metrics metric log logs stats scalars model global batch"))
_EVAL = frozenset(_list("val valid validation eval evaluation dev holdout"))
_TOTAL = frozenset(_list("total overall sum combined joint full"))
_EACH = frozenset(_list("step iter iteration"))
_SMOOTH = frozenset(_list("avg average mean running ema smooth smoothed moving median"))
_NAMED = frozenset(
    _list("logloss mlogloss xent ce bce nll mse rmse perplexity ppl deviance objective cost inertia")
)
_COUNTED = frozenset(_list("mae mape rmsle error err merror wer cer"))  # codespell:ignore
_HIGHER = frozenset(
    _list(
        "acc accuracy auc auroc auprc reward rewards rew return returns r2 f1 precision recall map score "
        "bleu rouge psnr ssim iou miou dice top1 top5 success elbo"  # codespell:ignore
    )
)
_NOT_THE_LOSS = frozenset(
    _list(
        "scale scaler weight weights coef coeff lambda ratio count num grad norm time best min max lowest "
        "std var variance delta diff lr"
    )
)

STEPS = _list(
    "step global_step _step steps current_steps total_timesteps num_updates iteration iter it n_iter "
    "iterations n_updates update round epoch epochs batch"
)
CLOCKS = _list(
    "timestamp _timestamp ts wall_time walltime datetime date created_at unix_time asctime time "
    "elapsed elapsed_s elapsed_time time_elapsed elapsed_seconds seconds time_s runtime _runtime"
)
EPOCHS = ("epoch", "epochs")


def loss_rank(name: str) -> int | None:
    """Rank a name as a training loss that is meant to fall.

    Total before plain, plain before per-epoch or smoothed, the training's before
    the evaluation's, a whole loss before one part of it (``loss_cls``).
    """
    words = _words(name)
    kind = _kind(words)
    if kind is None or not words.isdisjoint(_HIGHER | _NOT_THE_LOSS):
        return None
    part = 100 if kind == _PART else 0
    if not words.isdisjoint(_EVAL):
        return part + kind + 20
    return part + kind + (40 if "test" in words else 0)


_PART = 9


def _kind(words: frozenset[str]) -> int | None:
    """Rank what is left of a name when it no longer says where it was measured."""
    rest = words - _PLACE - _EVAL - {"test", "loss"}
    if "loss" not in words:
        if "cross" in words and "entropy" in words:
            return 6
        return 6 if words & _NAMED else 7 if words & _COUNTED else None
    if not rest:
        return 1 if len(words) == 1 else 2
    kinds = ((_TOTAL, 0), (_EACH, 3), (frozenset({"epoch"}), 4), (_SMOOTH | {"epoch"}, 5))
    return next((kind for names, kind in kinds if rest <= names), _PART)


def gain_rank(name: str) -> int | None:
    """Rank a name as a number that is meant to rise, for ``better=higher``."""
    words = _words(name)
    if words.isdisjoint(_HIGHER):
        return None
    return 0 if words.isdisjoint(_EVAL | {"test"}) else 1


def matches(key: str, name: str) -> int | None:
    """Rank how well a column's name fits the tag's ``key``: exact, but for case, by its last part."""
    if name == key:
        return 0
    if name.casefold() == key.casefold():
        return 1
    return 2 if name.endswith(("." + key, "/" + key)) else None


def known(name: str) -> bool:
    """Tell whether loggers use this name, so that it may stand in a table's header."""
    last = last_part(name)
    return (
        last in STEPS or last in CLOCKS or loss_rank(name) is not None or not _words(name).isdisjoint(_HIGHER)
    )


def _words(name: str) -> frozenset[str]:
    """Cut a name at every mark and at capitals: ``train/valueLoss`` has three words."""
    return frozenset(word.lower() for word in _WORDS.findall(name))


def last_part(name: str) -> str:
    """Cut a path off a name: ``time/total_timesteps``."""
    return name.strip().lower().replace(".", "/").rpartition("/")[2]
