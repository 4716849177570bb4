"""The figures of a plan as plain data, and as tables."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from zoo.cli.tables import console, titled
from zoo.planning import HERE, Rehearsal, Strategy, Subject, active, by_part, strategies
from zoo.runs.units import engineering, scaled

TRAINED = ("weights", "gradients", "optimizer", "activations", "loss")
DAY = 86_400
HEAP = "\nTensors need this; the C library keeps what was freed, in pieces that do not always fit: 8 to 36 % on top"


def plan(
    subject: Subject,
    device: str,
    devices: int,
    *,
    memory: float,
    peak: float,
    tokens: float | None,
    utilisation: float,
) -> dict[str, Any]:
    """Everything that a plan says: bytes, FLOPs and days, as numbers."""
    found = list(strategies(subject, devices))
    once = found[0].rehearsal
    count = sum(weight.numel() for weight in subject.task.parameters())
    plan: dict[str, Any] = {
        "task": type(subject.task).__name__,
        "precision": subject.precision,
        "batch": {"samples": subject.samples, "tokens": subject.tokens},
        "parameters": {
            "total": count,
            "active": active(subject.task),
            "parts": by_part(subject.task),
        },
        "flops": flops(once, subject),
        "device": {"name": device, "count": devices, "memory": memory, "peak": peak},
        "strategies": [row(strategy, memory) for strategy in found],
        "cache": subject.cache_bytes(),
    }
    if tokens is not None:
        seconds = tokens * plan["flops"]["training"] / (devices * peak * utilisation)
        hours = seconds * devices / 3600
        plan["time"] = {"tokens": tokens, "utilisation": utilisation, "days": seconds / DAY, "device_hours": hours}
    return plan


def flops(found: Rehearsal, subject: Subject) -> dict[str, float]:
    """A token's, and of the training step's the share that attention has."""
    training = sum(found.flops.values())
    return {
        "forward": subject.forward_flops() / subject.tokens,
        "training": training / subject.tokens,
        "attention": found.flops["attention"] / training,
    }


def row(strategy: Strategy, memory: float) -> dict[str, Any]:
    return {
        "name": strategy.name,
        "checkpointing": strategy.checkpointing,
        "batches": strategy.data,
        **{kind: strategy.sizes[kind] for kind in TRAINED},
        "copies": strategy.copies,
        "peak": strategy.total,
        "moment": strategy.peak.phase,
        "fits": strategy.total <= memory,
    }


def show(plan: dict[str, Any]) -> None:
    sheet, batch = console(), plan["batch"]
    sheet.print(parameters(plan["task"], plan["parameters"]))
    sheet.print()
    cost = plan["flops"]
    sheet.print(
        f"FLOPs a token: {scaled(cost['forward'], 'FLOP')} forward, {scaled(cost['training'], 'FLOP')} in training, "
        f"{cost['attention']:.0%} of it attention",
        soft_wrap=True,
    )
    sheet.print()
    device = plan["device"]
    title = (
        f"memory of a device, {batch['samples']:,} samples of {batch['tokens'] // batch['samples']:,} tokens "
        f"at {plan['precision']}; {device['name']} has {scaled(device['memory'], 'B')}"
    )
    sheet.print(memory(title, plan["strategies"]))
    if device["name"] == HERE:
        sheet.print(HEAP, soft_wrap=True)
    if plan["cache"]:
        sheet.print(f"\nkeys and values of as many tokens while writing: {scaled(plan['cache'], 'B')}")
    if "time" in plan:
        time(sheet, plan["time"], device)


def parameters(task: str, found: dict[str, Any]) -> Table:
    table = titled(f"{task}: parameters", "", "", "")
    table.show_header = False
    for column in table.columns[1:]:
        column.justify = "right"
    for name, count in found["parts"].items():
        table.add_row(name, f"{count:,}", f"{count / found['total']:.1%}")
    table.add_row("total", f"{found['total']:,}", "")
    table.add_row("met by a token", f"{found['active']:,}", f"{found['active'] / found['total']:.1%}")
    return table


def memory(title: str, rows: list[dict[str, Any]]) -> Table:
    columns = ("weights", "gradients", "optimizer", "activations", "loss", "copies", "peak")
    table = titled(title, "strategy", "activations are", *columns, "in the", "fits")
    for column in table.columns[2 : 2 + len(columns)]:
        column.justify = "right"
    for found in rows:
        sizes = [scaled(found[column], "B") if found[column] else "" for column in columns]
        table.add_row(
            found["name"],
            "computed again" if found["checkpointing"] else "kept",
            *sizes,
            found["moment"],
            "yes" if found["fits"] else "no",
        )
    return table


def time(sheet: Console, found: dict[str, float], device: dict[str, Any]) -> None:
    many = f"{device['count']:,} x {device['name']}"
    sheet.print(
        f"\n{engineering(found['tokens'])} tokens on {many} at {found['utilisation']:.0%} of "
        f"{scaled(device['peak'], 'FLOP/s')} each: {found['days']:.3g} days, {found['device_hours']:,.0f} device-hours",
        soft_wrap=True,
    )
