"""What the fuzzer has to know: a policy is sent as text, and text has no other types; who asks to be
refused with a server error gets one."""
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
    return not asks_for_server_error(case) and (case.media_type != TOML or isinstance(case.body, str))


def asks_for_server_error(case):
    """A proxy may choose the status it is refused with: of these, one that is no error of the server."""
    status = str((case.path_parameters or {}).get("status", ""))
    return status.isdigit() and 500 <= int(status) <= 599
