"""faster-whisper with one set of settings, as bench/whisper.mjs starts it.

Settings (argument, JSON): model, workers, threads, without_timestamps, batch (0: clips, each transcribed on its own by as
many Python threads as there are workers; otherwise the batched pipeline). A question is {"files": [...]}, the answer
{"seconds", "texts"}.
"""

import json
import logging
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from faster_whisper import BatchedInferencePipeline, WhisperModel

logging.disable(logging.WARNING)
settings = json.loads(sys.argv[1])
model = WhisperModel(
    settings["model"],
    device="cpu",
    compute_type="int8",
    num_workers=settings["workers"],
    cpu_threads=settings["threads"],
)
pipeline = BatchedInferencePipeline(model=model) if settings["batch"] else model


def transcribe(file):
    options = {
        "beam_size": 1,
        "language": "en",
        "without_timestamps": settings["without_timestamps"],
    }
    if settings["batch"]:
        options["batch_size"] = settings["batch"]
    segments, _ = pipeline.transcribe(file, **options)
    return " ".join(segment.text.strip() for segment in segments)


print(json.dumps({"ready": True}), flush=True)
with ThreadPoolExecutor(settings["workers"]) as threads:
    for line in sys.stdin:
        started_at = time.perf_counter()
        texts = list(threads.map(transcribe, json.loads(line)["files"]))
        seconds = time.perf_counter() - started_at
        print(json.dumps({"seconds": seconds, "texts": texts}), flush=True)
