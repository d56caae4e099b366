"""What a file's container says of itself: checks on bytes, before anything is decoded."""

from __future__ import annotations

import struct
import zlib

from spear_ray.errors import AudioDecode, AudioFormat, AudioTruncated

STREAMED_WAV_BYTES = 0x7FFF_0000
"""A WAV data chunk of at least this size is a writer's mark for 'length not known when I began'."""
MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
"""Each byte with its bits in reverse order."""


def check_is_audio(data: bytes) -> None:
    """Raise AudioFormat unless the file begins like wav, flac, ogg, opus or mp3."""
    wav = data[:4] in (b"RIFF", b"RF64") and data[8:12] == b"WAVE"
    mpeg = data[:3] == b"ID3" or (data[0] == 0xFF and len(data) > 1 and data[1] & 0xE6 == 0xE2)
    if not wav and data[:4] not in (b"fLaC", b"OggS") and not mpeg:
        raise AudioFormat(f"not wav, flac, ogg, opus or mp3: the file begins with {data[:12]!r}")


def check_wav_length(data: bytes) -> bool:
    """Compare the data chunk's size with the bytes that are there; True for a streamed file's placeholder."""
    at = 12
    long_size = None
    while at + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, at)
        if name == b"ds64" and at + 24 <= len(data):
            (long_size,) = struct.unpack_from("<Q", data, at + 16)
        if name == b"data":
            held = len(data) - at - 8
            if long_size is not None and size == 0xFFFF_FFFF:
                size = long_size
            elif size >= STREAMED_WAV_BYTES and size > held:
                return True
            if size > held:
                raise AudioTruncated(f"the header promises {size} bytes of samples, the file holds {held}")
            return False
        at += 8 + size + (size & 1)
    raise AudioTruncated("the file ends before its samples begin")


def check_ogg_pages(data: bytes) -> None:
    """Walk the pages: their checksums and numbers must be right and the last one must end the stream.

    libsndfile passes over damaged pages without a word, which would move all that follows them in time.
    """
    at, ended = 0, False
    following: dict[bytes, int] = {}
    while data[at : at + 4] == b"OggS":
        header = 27 + (data[at + 26] if at + 26 < len(data) else 0)
        end = at + header + sum(data[at + 27 : at + header])
        if at + header > len(data) or end > len(data):
            raise AudioTruncated(f"the Ogg page at byte {at} is cut")
        serial = data[at + 14 : at + 18]
        number, checksum = struct.unpack_from("<II", data, at + 18)
        if checksum != _ogg_checksum(data[at : at + 22] + bytes(4) + data[at + 26 : end]):
            raise AudioDecode(f"the Ogg page at byte {at} does not match its checksum")
        if number != following.get(serial, number):
            raise AudioDecode(f"Ogg pages are missing before byte {at}")
        following[serial] = number + 1
        at, ended = end, bool(data[at + 5] & 0x04)
    if not ended:
        raise AudioTruncated(f"the Ogg stream does not end where its pages do, at byte {at} of {len(data)}")


def _ogg_checksum(page: bytes) -> int:
    """Ogg's CRC-32 (polynomial 0x04C11DB7, most significant bit first), by way of zlib's mirrored one."""
    mirrored = zlib.crc32(page.translate(MIRRORED), 0xFFFF_FFFF) ^ 0xFFFF_FFFF
    return int(f"{mirrored:032b}"[::-1], 2)
