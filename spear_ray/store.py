"""Files of one root, which is a local folder or `s3://bucket/prefix`: read, list, and write atomically.

S3 is reached through s3fs; endpoint, region and keys come from the standard AWS variables
(`AWS_ENDPOINT_URL`, `AWS_DEFAULT_REGION`, `AWS_ACCESS_KEY_ID`, ...). Keys never appear in messages.
"""

from __future__ import annotations

import errno
import io
import os
import queue
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from spear_ray.errors import AudioTooLarge, StorageError

PROBE_SECONDS = 15.0
STREAM_BLOCK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Stat:
    """Size in bytes, and a tag (ETag or modification time) that changes when the content does."""

    size: int
    tag: str


class Store:
    """A root under which names are relative POSIX paths."""

    def __init__(self, uri: str, tagged: bool = True) -> None:
        """Open a root.

        Args:
            uri: a local folder or `s3://bucket/prefix`.
            tagged: False where files never change: then copies of them are the same, whatever their times.
        """
        self.uri = uri if uri.startswith("s3://") else str(Path(uri).expanduser().absolute())
        self.remote = uri.startswith("s3://")
        self.root = uri.removeprefix("s3://").rstrip("/") if self.remote else self.uri

        self.tagged = tagged

    def __reduce__(self) -> tuple[type[Store], tuple[str, bool]]:
        return Store, (self.uri, self.tagged)

    @cached_property
    def fs(self) -> Any:
        """The fsspec file system behind this store."""
        if self.remote:
            return _s3()
        from fsspec.implementations.local import LocalFileSystem

        return LocalFileSystem()

    def path(self, name: str = "") -> str:
        """The full path of a name in the file system's own form."""
        return f"{self.root}/{name}" if name else self.root

    def url(self, name: str = "") -> str:
        """The full path for people."""
        return f"s3://{self.path(name)}" if self.remote else self.path(name)

    def files(self, under: str = "") -> dict[str, Stat]:
        """All files below a folder, by name relative to the root, sorted; empty where there is no folder."""
        with self._guard("list", under):
            if not self.remote:
                local = _local_files(self.root, under)
                return local if self.tagged else {name: Stat(stat.size, "") for name, stat in local.items()}
            found = self.fs.find(self.path(under), detail=True, refresh=True)
        base = len(self.root) + 1
        return {path[base:]: _stat(info) for path, info in sorted(found.items()) if len(path) > base}

    def folders(self, under: str = "") -> list[str]:
        """Names of the folders directly below a folder; empty where there is none."""
        with self._guard("list", under):
            try:
                found = self.fs.ls(self.path(under), detail=True, refresh=True)
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted(PurePosixPath(item["name"]).name for item in found if self._is_folder(item))

    def _is_folder(self, item: Mapping[str, Any]) -> bool:
        return item["type"] == "directory" or (not self.remote and os.path.isdir(item["name"]))

    def exists(self, name: str) -> bool:
        """Whether there is such a file or folder."""
        with self._guard("look up", name):
            self.fs.invalidate_cache()
            return bool(self.fs.exists(self.path(name)))

    def read(self, name: str, most: int | None = None) -> bytes:
        """The whole file.

        Raises:
            FileNotFoundError: there is none, a folder has that name, or no file can have it.
            AudioTooLarge: more than `most` bytes; nothing beyond them was fetched.
            StorageError: the store failed.
        """
        if not name or "\0" in name:
            raise FileNotFoundError(self.url(name))
        with self._guard("read", name):
            data = self._fetched(name, {} if most is None else {"start": 0, "end": most + 1})
        if most is not None and len(data) > most:
            raise AudioTooLarge(f"{self.url(name)} has more than {most} bytes (audio.max_bytes)")
        return data

    def _fetched(self, name: str, part: dict[str, int]) -> bytes:
        try:
            return cast(bytes, self.fs.cat_file(self.path(name), **part))
        except OSError as error:
            if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG):
                raise FileNotFoundError(self.url(name)) from error
            # S3 refuses to send a part of an object that has no bytes.
            if self.remote and error.errno == errno.EINVAL and part and self.fs.size(self.path(name)) == 0:
                return b""
            raise

    @contextmanager
    def open(self, name: str, offset: int = 0) -> Iterator[BinaryIO]:
        """A stream of the file from a byte on, fetched as it is read."""
        with self._guard("read", name):
            options = {"block_size": STREAM_BLOCK_BYTES, "cache_type": "readahead"} if self.remote else {}
            with self.fs.open(self.path(name), "rb", **options) as file:
                file.seek(offset)
                yield file

    def write(self, name: str, data: bytes) -> None:
        """Write a file so that readers see all of it or nothing."""
        with self._guard("write", name):
            if self.remote:
                self.fs.pipe_file(self.path(name), data)
            else:
                _write_local(Path(self.path(name)), data)

    def write_stream(self, name: str, file: BinaryIO) -> None:
        """Like `write`, from an open file, without holding it in memory."""
        with self._guard("write", name):
            if not self.remote:
                _write_local(Path(self.path(name)), file)
                return
            with self.fs.open(self.path(name), "wb") as target:
                shutil.copyfileobj(file, target, STREAM_BLOCK_BYTES)

    def move(self, name: str, to: str) -> None:
        """Rename a file, over an older one if there is one."""
        with self._guard("move", name):
            if self.remote:
                # Not fs.mv, which takes * ? [ in a name for patterns.
                self.fs.cp_file(self.path(name), self.path(to))
                self.fs.rm_file(self.path(name))
            else:
                Path(self.path(to)).parent.mkdir(parents=True, exist_ok=True)
                os.replace(self.path(name), self.path(to))

    def remove(self, name: str) -> None:
        """Delete a file."""
        with self._guard("delete", name):
            self.fs.rm_file(self.path(name))

    def check(self) -> None:
        """Reach the store once, so that a wrong bucket, key or endpoint shows within seconds.

        Raises:
            StorageError: with one line that says what is wrong.
        """
        if not self.remote:
            return
        bucket = self.root.split("/", 1)[0]

        def ask() -> None:
            _s3(patient=False).call_s3("list_objects_v2", Bucket=bucket, MaxKeys=1)

        try:
            with self._guard("reach", ""):
                _within(PROBE_SECONDS, ask)
        except FileNotFoundError:
            raise StorageError(f"cannot reach {self.url()}: there is no bucket '{bucket}'") from None

    @contextmanager
    def _guard(self, action: str, name: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, StorageError):
            raise
        except Exception as error:
            if not _is_storage(error):
                raise
            raise StorageError(f"cannot {action} {self.url(name)}: {_reason(error)}") from error


def split_file(uri: str) -> tuple[Store, str]:
    """A store for the folder of a file, and the file's name in it."""
    folder, _, name = uri.rstrip("/").rpartition("/")
    return Store(folder or "."), name


def _s3(patient: bool = True) -> Any:
    import s3fs

    retries = {"max_attempts": 4 if patient else 1, "mode": "standard"}
    timeouts = {"connect_timeout": 5, "read_timeout": 60 if patient else 10}
    fs = s3fs.S3FileSystem(config_kwargs={"retries": retries, **timeouts})
    if not patient:
        fs.retries = 1
    return fs


def _within(seconds: float, call: Callable[[], None]) -> None:
    """Call on a thread that does not keep the process alive; give up after a while."""
    raised: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            call()
        except Exception as error:
            raised.put(error)
        else:
            raised.put(None)

    threading.Thread(target=work, daemon=True).start()
    try:
        error = raised.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer within {seconds:.0f} s") from None
    if error is not None:
        raise error


def _stat(info: dict[str, Any]) -> Stat:
    return Stat(int(info["size"]), str(info.get("ETag") or "").strip('"'))


def _local_files(root: str, under: str) -> dict[str, Stat]:
    """As S3 would list them: linked folders are gone into, links that go nowhere or round in a circle are not."""
    found = {}
    for folder, folders, names in os.walk(os.path.join(root, under), followlinks=True):
        here = os.path.realpath(folder)
        folders[:] = [name for name in folders if not f"{here}/".startswith(f"{os.path.realpath(f'{folder}/{name}')}/")]
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                info = os.stat(path)
                found[os.path.relpath(path, root)] = Stat(info.st_size, str(info.st_mtime))
    return dict(sorted(found.items()))


def _write_local(path: Path, data: bytes | BinaryIO) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            shutil.copyfileobj(io.BytesIO(data) if isinstance(data, bytes) else data, file, STREAM_BLOCK_BYTES)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _is_storage(error: Exception) -> bool:
    return isinstance(error, OSError) or type(error).__module__.split(".")[0] in {
        "botocore",
        "aiobotocore",
        "aiohttp",
    }


def _reason(error: Exception) -> str:
    """One line; botocore's messages name endpoints and codes, never keys."""
    reason = " ".join(str(error).split()) or type(error).__name__
    hint = "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    return reason + (hint if type(error).__name__ == "NoCredentialsError" else "")


def upload(folder: str, uri: str) -> int:
    """Copy a local folder's files to a store; returns how many."""
    store = Store(uri)
    paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    for path in paths:
        with path.open("rb") as file:
            store.write_stream(path.relative_to(folder).as_posix(), file)
    return len(paths)
