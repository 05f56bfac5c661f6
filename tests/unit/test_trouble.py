"""What does not work is said once, and once that it does again."""

from __future__ import annotations

from airflow_provider.shards.trouble import Trouble


def test_each_reason_is_news_once_and_again_when_it_was_over() -> None:
    trouble = Trouble()
    assert trouble.over() is None
    assert [trouble.is_news(why) for why in ("a", "a", "b", "b")] == [True, False, True, False]
    assert trouble.over() is not None
    assert trouble.over() is None
    assert trouble.is_news("b")
