"""Uses the server as an unmodified nvidia-riva-client does, and prints what it got as JSON.

A program of its own: that client and Motet both register Riva's messages, which one process can't.
"""

import json
import sys

import riva.client


def main(address: str, wav_path: str) -> None:
    auth = riva.client.Auth(uri=address, metadata_args=[["authorization", "Bearer secret-1"]])
    asr = riva.client.ASRService(auth)
    tts = riva.client.SpeechSynthesisService(auth)
    config = riva.client.RecognitionConfig(
        language_code="en-US",
        max_alternatives=1,
        enable_automatic_punctuation=True,
        enable_word_time_offsets=True,
        verbatim_transcripts=True,
    )
    riva.client.add_audio_file_specs_to_config(config, wav_path)
    riva.client.add_word_boosting_to_config(config, ["Motet"], 4.0)
    with open(wav_path, "rb") as file:
        offline = asr.offline_recognize(file.read(), config)
    streaming = riva.client.StreamingRecognitionConfig(config=config, interim_results=True)
    with riva.client.AudioChunkFileIterator(wav_path, 1600) as chunks:
        results = [
            {
                "final": result.is_final,
                "text": result.alternatives[0].transcript,
                "seconds": result.audio_processed,
            }
            for response in asr.streaming_response_generator(chunks, streaming)
            for result in response.results
        ]
    listed = asr.stub.GetRivaSpeechRecognitionConfig(
        riva.client.proto.riva_asr_pb2.RivaSpeechRecognitionConfigRequest(),
        metadata=auth.get_auth_metadata(),
    )
    spoken = tts.synthesize("abc", voice_name="ada", language_code="en-US", sample_rate_hz=16_000)
    pieces = list(tts.synthesize_online("ab", sample_rate_hz=24_000))
    voices = tts.stub.GetRivaSynthesisConfig(
        riva.client.proto.riva_tts_pb2.RivaSynthesisConfigRequest(),
        metadata=auth.get_auth_metadata(),
    )
    print(  # noqa: T201 - the test reads it
        json.dumps(
            {
                "offline": [one.alternatives[0].transcript for one in offline.results],
                "streaming": results,
                "models": [one.model_name for one in listed.model_config],
                "asr_parameters": dict(listed.model_config[0].parameters),
                "spoken_bytes": len(spoken.audio),
                "pieces": [len(one.audio) for one in pieces],
                "voices": [dict(one.parameters) for one in voices.model_config],
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
