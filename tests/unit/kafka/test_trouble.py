"""What does not work is said when it begins, every half minute while it lasts, and once that it works again."""

from __future__ import annotations

import time

import pytest

from airflow_provider.kafka.trouble import Trouble


def test_each_reason_is_news_once_and_again_when_it_was_over() -> None:
    trouble = Trouble()
    assert trouble.over() is None
    assert [trouble.is_news(why) for why in ("a", "a", "b", "b")] == [True, False, True, False]
    assert trouble.over() is not None
    assert trouble.over() is None
    assert trouble.is_news("b")


def test_what_lasts_is_said_again_every_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    trouble, told = Trouble(), []
    while now_s < 100:
        if trouble.is_news("no broker answers"):
            told.append(trouble.lasts_s)
        now_s += 5
    assert told == [0, 30, 60, 90]
    assert trouble.over() == 100
    assert trouble.lasts_s == 0
