"""What the fuzzer has to know of a policy: it is sent as text."""
import schemathesis


@schemathesis.serializer("application/toml")
def toml(ctx, value):
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else str(value).encode()


@schemathesis.deserializer("application/toml")
def read_toml(ctx, response):
    return response.content.decode("utf-8")
