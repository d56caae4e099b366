"""Where dialogues come from: SPEARBench folders, tar shards, plain recordings, single exchanges."""

from __future__ import annotations

from spear_ray.config import BenchConfig
from spear_ray.errors import DataLayoutError
from spear_ray.sources.base import Item, Shard, Source
from spear_ray.store import Store, split_file

__all__ = ["Item", "Shard", "Source", "open_source"]


def open_source(config: BenchConfig) -> Source:
    """The source that `data.uri` and `data.layout` name.

    Raises:
        DataLayoutError: there is nothing, or nothing known.
        StorageError: the store cannot be reached.
    """
    uri = _bundled() if config.data.uri == "sample" else config.data.uri
    if config.data.layout == "exchanges":
        from spear_ray.sources.exchanges import ExchangesSource

        store, table = split_file(uri)
        store.check()
        return ExchangesSource(config.data, config.audio, store, table=table)
    if uri.endswith(".csv"):
        store, table = split_file(uri)
        return _recordings(config, store, table)
    # Ray unpacks the bundled sample anew for each submitted job; it is the same sample.
    store = Store(uri, tagged=config.data.uri != "sample")
    store.check()
    layout = config.data.layout if config.data.layout != "auto" else _guess(store)
    if layout == "recordings":
        return _recordings(config, store, _only_table(store))
    if layout == "shards":
        from spear_ray.sources.shards import ShardsSource

        return ShardsSource(config.data, config.audio, store)
    from spear_ray.sources.spearbench import SpearBenchSource

    return SpearBenchSource(config.data, config.audio, store)


def _recordings(config: BenchConfig, store: Store, table: str) -> Source:
    from spear_ray.sources.recordings import RecordingsSource

    store.check()
    return RecordingsSource(config.data, config.audio, store, table=table)


def _bundled() -> str:
    from spear_ray.sample import SAMPLE_DIR

    return str(SAMPLE_DIR)


def _guess(store: Store) -> str:
    if store.exists("index.json"):
        return "shards"
    if store.folders("outputs"):
        return "spearbench"
    if _tables(store):
        return "recordings"
    raise DataLayoutError(
        f"{store.url()} holds neither index.json (tar shards), nor outputs/ (SPEARBench's layout), nor a CSV file"
        " (recordings); is data.uri right?"
    )


def _only_table(store: Store) -> str:
    tables = _tables(store)
    if len(tables) != 1:
        raise DataLayoutError(
            f"{store.url()} holds {len(tables)} CSV files ({', '.join(tables) or 'none'}); name one: data.uri=….csv"
        )
    return tables[0]


def _tables(store: Store) -> list[str]:
    return [name for name in store.files() if "/" not in name and name.endswith(".csv")]
