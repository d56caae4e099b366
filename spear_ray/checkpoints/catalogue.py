"""The published checkpoints that scorers can use.

Licences and sizes are the hub's own where it shows them, else four bytes for each parameter. Only safetensors and what
describes them is taken from a hub repository: never pickles, never code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spear_ray.checkpoints.hub import CONFIG, INDEX, SCHEME, WEIGHTS, HubName
from spear_ray.errors import ConfigError

COMMAND = "spear-ray checkpoints pull"

MODEL = (CONFIG, WEIGHTS, "model-*.safetensors", INDEX, "preprocessor_config.json")
"""Files of an encoder with a head, and of its input."""
WHISPER = (*MODEL, "generation_config.json")
"""With the table of its language tokens."""
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
RECOGNISER = (*WHISPER, "tokenizer.json", "normalizer.json")
"""Of a speech recogniser: also its tokens, and Whisper's table of spellings."""
JUDGE = (
    *WHISPER, *TOKENIZER, "vocab.json", "merges.txt", "added_tokens.json", "processor_config.json",
    "chat_template.json", "chat_template.jinja",
)  # fmt: skip
"""Of an audio LLM: also its processor and its chat template."""
ANY = (*JUDGE, "normalizer.json")
"""Files of a repository that is not in the catalogue."""

RAIL = "RAIL-type"
DIMENSIONS = "scorer.emotion.dimensions_model"
LANGUAGE = "scorer.dialect.language_model"
TRANSCRIPT = "scorer.transcript.model"
DUALTURN = "scorer.turn_taking.dualturn"


@dataclass(frozen=True)
class Published:
    """One checkpoint.

    Args:
        name: what it is called here.
        uri: `hf://org/name`; empty where it is on no hub.
        used_by: the configuration key that can name it.
        licence: as its publishers call it.
        commercial: whether the licence allows commercial use.
        bytes: of the download, roughly; 0 where it is not known.
        files: fnmatch patterns of the files that are fetched and checked.
        about: what it tells.
        how: how it comes to this machine where it is on no hub.
        sha256: of its only file, where its publishers or users have written it down.
    """

    name: str
    uri: str
    used_by: str
    licence: str
    commercial: bool
    bytes: int
    files: tuple[str, ...]
    about: str
    how: str = ""
    sha256: str = ""

    @property
    def terms(self) -> str:
        """The licence, marked where it forbids commercial use."""
        return self.licence if self.commercial else f"{self.licence}, non-commercial"

    @property
    def size(self) -> str:
        """Of the download, for people."""
        if self.bytes >= 10**9:
            return f"about {self.bytes / 10**9:.1f} GB"
        if self.bytes >= 10**6:
            return f"about {self.bytes / 10**6:.0f} MB"
        return f"about {self.bytes} bytes" if self.bytes else "size not known"


CATALOGUE = (
    Published(
        "voxlect-english-dialect-whisper-large-v3", "hf://tiantiaf/voxlect-english-dialect-whisper-large-v3",
        "scorer.dialect.dialect_model", RAIL, False, 2_599_000_000, MODEL,
        "sixteen English dialects (VoxLect, arXiv 2508.01691); SPEARBench's choice",
    ),
    Published(
        "whisper-large-v3-msp-podcast-emotion-dim", "hf://tiantiaf/whisper-large-v3-msp-podcast-emotion-dim",
        DIMENSIONS, RAIL, False, 2_563_000_000, MODEL,
        "arousal, valence, dominance (Vox-Profile, arXiv 2505.14648); SPEARBench's choice, and what TRACE hears",
    ),
    Published(
        "wavlm-large-msp-podcast-emotion-dim", "hf://tiantiaf/wavlm-large-msp-podcast-emotion-dim",
        DIMENSIONS, RAIL, False, 1_264_000_000, MODEL, "arousal, valence, dominance (Vox-Profile) on WavLM",
    ),
    Published(
        "wav2vec2-large-robust-12-ft-emotion-msp-dim", "hf://audeering/wav2vec2-large-robust-12-ft-emotion-msp-dim",
        DIMENSIONS, "CC-BY-NC-SA-4.0", False, 661_000_000, MODEL, "arousal, dominance, valence (arXiv 2203.07378)",
    ),
    Published(
        "SER-Odyssey-Baseline-WavLM-Multi-Attributes", "hf://3loi/SER-Odyssey-Baseline-WavLM-Multi-Attributes",
        DIMENSIONS, "MIT", True, 1_270_000_000, MODEL, "arousal, dominance, valence; commercial use is allowed",
    ),
    Published(
        "mms-lid-126", "hf://facebook/mms-lid-126",
        LANGUAGE, "CC-BY-NC-4.0", False, 3_860_000_000, MODEL,
        "126 languages (MMS, arXiv 2305.13516); SPEARBench's choice",
    ),
    Published(
        "whisper-small", "hf://openai/whisper-small",
        LANGUAGE, "Apache-2.0", True, 967_000_000, RECOGNISER,
        f"languages, by Whisper's own language token; also transcripts ({TRANSCRIPT})",
    ),
    Published(
        "whisper-large-v3", "hf://openai/whisper-large-v3",
        TRANSCRIPT, "Apache-2.0", True, 3_090_000_000, RECOGNISER,
        f"transcripts with word times; SPEARBench's choice; also languages ({LANGUAGE})",
    ),
    Published(
        "Qwen3-ASR-0.6B-hf", "hf://Qwen/Qwen3-ASR-0.6B-hf",
        TRANSCRIPT, "Apache-2.0", True, 1_880_000_000, RECOGNISER,
        "transcripts without word times; SPEARBench's choice, Qwen/Qwen3-ASR-0.6B, as transformers reads it",
    ),
    Published(
        "utmos22-strong", "",
        "scorer.quality.utmos", "MIT", True, 410_000_000, ("utmos22_strong_step7459_v1.pt",),
        "speech quality (UTMOS22, arXiv 2204.02152); SPEARBench's choice",
        how="get utmos22_strong_step7459_v1.pt from the releases of github.com/tarepan/SpeechMOS",
    ),
    Published(
        "Qwen2.5-Omni-7B", "hf://Qwen/Qwen2.5-Omni-7B",
        "judge.checkpoint", "Apache-2.0", True, 22_400_000_000, JUDGE,
        "the judge of wavreward and stance (arXiv 2503.20215); zero-shot, not trained as WavReward was",
    ),
    Published(
        "Qwen3-Omni-30B-A3B-Instruct", "hf://Qwen/Qwen3-Omni-30B-A3B-Instruct",
        "judge.checkpoint", "Apache-2.0", True, 70_500_000_000, JUDGE, "a larger judge (arXiv 2509.17765)",
    ),
    Published(
        "all-MiniLM-L6-v2", "hf://sentence-transformers/all-MiniLM-L6-v2",
        "scorer.emotion.trace.text_model", "Apache-2.0", True, 91_000_000, (*MODEL, *TOKENIZER),
        "vectors of the texts that TRACE is told",
    ),
    Published(
        "trace", "",
        "scorer.emotion.trace.checkpoint", "CC BY-NC 4.0 (data)", False, 20_000_000, ("last_model.pt",),
        "naturalness of emotions in exchange (TRACE, arXiv 2606.30543)",
        how="get last_model.pt from the Google Drive folder named in github.com/SathvikNapa/NaturalnessPrediction",
    ),
    Published(
        "turnnat-dualturn-fvad256", "",
        f"{DUALTURN}.checkpoint", "see its page", False, 1_980_000_000, ("turnnat-dualturn-fvad256.pt",),
        "turn-taking naturalness (TurnNat, arXiv 2607.01345)",
        how="get turnnat-dualturn-fvad256.pt from https://figshare.com/s/65e5bf5290085220ee88",
        sha256="96472553406762c662adae1197941d42347b6ada93bb8bccb80479a72b66ba97",
    ),
    Published(
        "mimi", "hf://kyutai/mimi",
        f"{DUALTURN}.mimi", "CC-BY 4.0", True, 385_000_000, MODEL, "the audio codec before DualTurn",
    ),
    Published(
        "Qwen2.5-0.5B", "hf://Qwen/Qwen2.5-0.5B",
        f"{DUALTURN}.backbone", "Apache-2.0", True, 681, (CONFIG,), "sizes of DualTurn's backbone, without its weights",
    ),
)  # fmt: skip


def find(name_or_uri: str) -> Published:
    """An entry of the catalogue by its name, or by its `hf://`, then at the revision that this one says.

    Raises:
        ConfigError: there is none; the message lists the names.
    """
    for one in CATALOGUE:
        if name_or_uri == one.name:
            return one
    if name_or_uri.startswith(SCHEME):
        wanted = HubName.of(name_or_uri)
        for one in CATALOGUE:
            if one.uri and HubName.of(one.uri).repository == wanted.repository:
                return replace(one, uri=str(wanted))
    names = ", ".join(one.name for one in CATALOGUE)
    raise ConfigError(f"there is no checkpoint '{name_or_uri}' in the catalogue; there are: {names}")


def named(name_or_uri: str) -> Published:
    """As `find`, and any other `hf://` repository as an entry of its own.

    Raises:
        ConfigError: neither in the catalogue nor `hf://`.
    """
    try:
        return find(name_or_uri)
    except ConfigError:
        if not name_or_uri.startswith(SCHEME):
            raise
        name = HubName.of(name_or_uri)
        terms = "licence not in the catalogue, see the model's page"
        return Published(name.repository, str(name), "", terms, True, 0, ANY, "not in the catalogue")


def of_file(name: str) -> Published | None:
    """The entry without a hub whose file is called so."""
    return next((one for one in CATALOGUE if not one.uri and name in one.files), None)


def pull_command(uri: str) -> str:
    """What to type to have an `hf://` checkpoint."""
    entry = named(uri)
    return f"{COMMAND} {entry.name if entry in CATALOGUE else entry.uri}"
