"""Files of several arrays whose checksums are right and whose contents aren't: what a hand leaves, not a bad disk."""

import io
import json
import random
import zipfile

import numpy as np

from tests.spoiling import spoilt, spoilt_array, spoilt_json


def spoilt_archive(content: bytes, chance: random.Random) -> bytes:
    """A zip file with one or two members changed, renamed or dropped; a fifth of them with bytes spoilt."""
    if chance.random() < 0.2:
        return spoilt(content, chance)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
        methods = {info.filename: info.compress_type for info in archive.infolist()}
    for _ in range(chance.randint(1, 2)):
        name = chance.choice([*members])
        if chance.random() < 0.1:
            members[chance.choice([*members, "more.npy"])] = members.pop(name)
        elif chance.random() < 0.1 and len(members) > 1:
            del members[name]
        else:
            members[name] = _spoilt_member(members[name], chance)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member, methods.get(name))
    return file.getvalue()


def _spoilt_member(member: bytes, chance: random.Random) -> bytes:
    """An array changed as an array, or as the JSON that stands in its bytes; anything else as JSON or as bytes."""
    if not member.startswith(b"\x93NUMPY"):
        return spoilt_json(member, chance) if member[:1] in b"[{" else spoilt(member, chance)
    if chance.random() < 0.1:
        return spoilt(member, chance)
    try:
        array = np.load(io.BytesIO(member), allow_pickle=False)
    except ValueError:  # spoilt before
        return spoilt(member, chance)
    if array.dtype == np.uint8 and array.ndim == 1 and array.tobytes()[:1] in (b"{", b"[") and chance.random() < 0.8:
        array = np.frombuffer(spoilt_json(array.tobytes(), chance), np.uint8)
    else:
        array = spoilt_array(array, chance)
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def spoilt_tensors(content: bytes, chance: random.Random) -> bytes:
    """A safetensors file whose header, the JSON in its metadata, or numbers are changed; a fifth with bytes spoilt."""
    if chance.random() < 0.2:
        return spoilt(content, chance)
    end = 8 + int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8:end]), content[end:]
    match chance.randrange(4):
        case 0 | 1:
            name = chance.choice([*header["__metadata__"]])
            text = header["__metadata__"][name].encode()
            changed = spoilt_json(text, chance) if text[:1] in b"[{" else spoilt(text, chance)
            header["__metadata__"][name] = changed.decode("utf-8", "surrogateescape")
        case 2:
            header = spoilt_json(json.dumps(header).encode(), chance)
        case _:
            entry = chance.choice([entry for name, entry in header.items() if name != "__metadata__"])
            first, last = entry["data_offsets"]
            kind = "<f4" if (last - first) % 4 == 0 and chance.random() < 0.7 else "u1"
            array = spoilt_array(np.frombuffer(data[first:last], kind), chance)
            data = data[:first] + (array.tobytes() + data[first:last])[: last - first] + data[last:]
    written = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(written).to_bytes(8, "little") + written + data
