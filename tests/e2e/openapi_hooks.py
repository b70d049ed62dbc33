"""What the fuzzer has to know of a policy: it is sent as text, and text has no other types."""
import schemathesis

TOML = "application/toml"


@schemathesis.serializer(TOML)
def toml(ctx, value):
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else str(value).encode()


@schemathesis.deserializer(TOML)
def read_toml(ctx, response):
    return response.content.decode("utf-8")


@schemathesis.hook
def filter_case(ctx, case):
    return case.media_type != TOML or isinstance(case.body, str)
