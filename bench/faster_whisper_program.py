"""faster-whisper with one set of settings, as bench/whisper.mjs starts it.

Settings (argument, JSON): model, workers, threads, without_timestamps, batch (0: clips, each transcribed on its own by as
many Python threads as there are workers; otherwise the batched pipeline). A question is {"files": [...]}; {"event": "first"}
comes with the first segment of text, the answer is {"texts"}.
"""

import json
import logging
import sys
import threading
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


told = threading.Event()
telling = threading.Lock()


def tell_first():
    with telling:
        if not told.is_set():
            told.set()
            print(json.dumps({"event": "first"}), flush=True)


def transcribe(file):
    options = {
        "beam_size": 1,
        "language": "en",
        "without_timestamps": settings["without_timestamps"],
    }
    if settings["batch"]:
        options["batch_size"] = settings["batch"]
    segments, _ = pipeline.transcribe(file, **options)
    texts = []
    for segment in segments:
        tell_first()
        texts.append(segment.text.strip())
    return " ".join(texts)


print(json.dumps({"ready": True}), flush=True)
with ThreadPoolExecutor(settings["workers"]) as threads:
    for line in sys.stdin:
        told.clear()
        texts = list(threads.map(transcribe, json.loads(line)["files"]))
        print(json.dumps({"texts": texts}), flush=True)
