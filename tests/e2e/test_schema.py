"""The JSON Schema of a policy file, validated by the jsonschema package.

The documents in crates/tollgate/tests/golden/schema are read here and by the Rust tests of the parser
(crates/tollgate/tests/it/policy_file/schema.rs): the schema and the parser accept, and reject, the same
ones.
"""

import datetime
import json
import subprocess
import tomllib
import unittest

from jsonschema import Draft202012Validator
from support import ROOT, tollgate_binary

GOLDEN = ROOT / "crates" / "tollgate" / "tests" / "golden" / "schema"


def as_json(value):
    """TOML as JSON, as editors see it: a moment is a text."""
    match value:
        case dict():
            return {key: as_json(item) for key, item in value.items()}
        case list():
            return [as_json(item) for item in value]
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case _:
            return value


def documents(folder):
    return {path.name: as_json(tomllib.loads(path.read_text())) for path in (GOLDEN / folder).iterdir()}


def schemas():
    """The schema of the library, which a Rust test compares with the file, and that of the binary."""
    printed = subprocess.run([tollgate_binary(), "schema"], capture_output=True, check=True)
    library = (GOLDEN / "policy.schema.json").read_text()
    return {"library": json.loads(library), "binary": json.loads(printed.stdout)}


class Schema(unittest.TestCase):
    def each_schema(self, check):
        for name, schema in schemas().items():
            with self.subTest(schema=name):
                check(Draft202012Validator(schema))

    def test_schema_is_valid_under_its_meta_schema(self):
        self.each_schema(lambda validator: validator.check_schema(validator.schema))

    def test_schema_accepts_the_documents_that_the_parser_accepts(self):
        accepted = documents("accepted")
        self.assertEqual(len(accepted), 6)

        def check(validator):
            for name, document in accepted.items():
                errors = [error.message for error in validator.iter_errors(document)]
                self.assertEqual(errors, [], name)

        self.each_schema(check)

    def test_schema_rejects_the_documents_that_the_parser_rejects(self):
        rejected = documents("rejected")
        self.assertEqual(len(rejected), 21)

        def check(validator):
            valid = [name for name, document in rejected.items() if validator.is_valid(document)]
            self.assertEqual(valid, [])

        self.each_schema(check)
