"""Messages and methods of moetier.v1, made at import from the committed descriptor set.

There is no generated code: it would tie the package to one range of protobuf versions and its
installation to protoc. The set lies beside this file (in a source tree as a link to proto/) and is
loaded into a pool of its own, so that it meets no other copy in the process.
"""

import pathlib

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "moetier.v1"


def _load_pool():
    path = pathlib.Path(__file__).with_name("moetier.v1.binpb")
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _load_pool()


def _class_of(descriptor):
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(_POOL).GetPrototype(descriptor)  # before protobuf 4.22


def message(name):
    """The class of moetier.v1.NAME."""
    return _class_of(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


AttachRequest = message("AttachRequest")
DecodeRequest = message("DecodeRequest")
Fault = message("Fault")
GetModelRequest = message("GetModelRequest")
GetStatusRequest = message("GetStatusRequest")
LayerReply = message("LayerReply")
ListModelsRequest = message("ListModelsRequest")
StatusDetails = message("StatusDetails")

DTYPE_F32 = 1
DTYPE_F16 = 2
DTYPE_BF16 = 3

_REASONS = _POOL.FindEnumTypeByName(f"{_PACKAGE}.Reason").values_by_number


def reason_name(number):
    """"BAD_SHAPE" of REASON_BAD_SHAPE; a number that this version does not know stays one."""
    value = _REASONS.get(number)
    return value.name.removeprefix("REASON_") if value is not None else f"REASON_{number}"


def method(make_call, service, name):
    """A callable for one method; `make_call` is the channel's maker for its kind of streaming."""
    found = _POOL.FindServiceByName(f"{_PACKAGE}.{service}").methods_by_name[name]
    return make_call(f"/{_PACKAGE}.{service}/{name}",
                     request_serializer=_class_of(found.input_type).SerializeToString,
                     response_deserializer=_class_of(found.output_type).FromString)
