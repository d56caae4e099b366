"""Fixtures that several rooms use."""

import os
from collections.abc import Iterator

import pytest
from s3_server import S3Server


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server with the bucket `spear`; the AWS variables point to it as long as it runs."""
    import s3fs

    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("AWS_")]:
                patch.delenv(name)
            for name, value in server.environment.items():
                patch.setenv(name, value)
            s3fs.S3FileSystem.clear_instance_cache()
            yield server
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
        if server.process is not None:
            # What it holds is thrown away: no need to wait for its own, slow end.
            server.process.kill()
        server.stop()
