"""Silero VAD in onnxruntime on one thread, as bench/vad.mjs starts it.

Settings (argument, JSON): model, whole (true: faster-whisper's form of the model, which takes a whole file in one call and
is called as faster-whisper calls it; false: Silero's own file, called as Silero's package does, window by window). A question
is {"file": 16 kHz mono 16-bit WAV}, the answer {"seconds", "probabilities"}, without reading the file.
"""

import json
import sys
import time
import wave

import numpy as np
import onnxruntime

RATE = 16000
WINDOW = 512
CONTEXT = 64

settings = json.loads(sys.argv[1])
if settings["whole"]:
    from faster_whisper.vad import get_vad_model

    detector = get_vad_model()
else:
    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = 1
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        settings["model"], sess_options=options, providers=["CPUExecutionProvider"]
    )


def read(file):
    with wave.open(file) as audio:
        samples = np.frombuffer(audio.readframes(audio.getnframes()), dtype="<i2")
    padding = -len(samples) % WINDOW
    return np.pad(samples.astype(np.float32) / 32768, (0, padding))


def by_windows(samples):
    state = np.zeros((2, 1, 128), dtype=np.float32)
    rate = np.array(RATE, dtype=np.int64)
    padded = np.concatenate([np.zeros(CONTEXT, dtype=np.float32), samples])
    probabilities = []
    for start in range(0, len(samples), WINDOW):
        window = padded[None, start : start + CONTEXT + WINDOW]
        output, state = session.run(None, {"input": window, "state": state, "sr": rate})
        probabilities.append(float(output[0, 0]))
    return probabilities


def as_a_whole(samples):
    return detector(samples).reshape(-1).tolist()


detect = as_a_whole if settings["whole"] else by_windows
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    samples = read(json.loads(line)["file"])
    started_at = time.perf_counter()
    probabilities = detect(samples)
    seconds = time.perf_counter() - started_at
    print(json.dumps({"seconds": seconds, "probabilities": probabilities}), flush=True)
