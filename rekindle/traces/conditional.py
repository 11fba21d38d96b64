"""Files that are created only where none is, on object stores.

A put that is refused where an object has the name already is the one thing that decides between two
writers (`If-None-Match: *` on S3 and Azure, generation 0 on Google's store). `pyarrow.fs` cannot
ask for it, so this one request goes through `obstore`; all else stays with Arrow, and readers need
nothing more. Endpoint, region and credentials are those of the Arrow filesystem, which had them
from the URI; what it left to the environment is left to the environment here.

A request that fails without an answer may have been carried out. Such a failure is an
`UncertainError` and never taken for a refusal; who asked finds out by looking at the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

from rekindle.errors import PrerequisiteError, StorageError, UnsupportedError

EXTRA = "object-store"
_PATIENCE = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}
_TIMEOUT = timedelta(seconds=15)


class UncertainError(StorageError):
    """A file of which nobody can say whether it was created."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            hint="close the connection and open the database again: its epoch says whether what "
            "was being committed is there",
        )


def creator(uri: str, filesystem: Any, bucket: str) -> Callable[[str, bytes], None]:
    """What creates an object in a bucket of an Arrow filesystem unless there is one of its name."""
    kind = filesystem.type_name
    # Arrow has no accessor for its options but the one that pickles them.
    options = dict(filesystem.__reduce__()[1][0])
    if kind == "abfs" and not options["account_key"]:
        # Of a key that came with the URI it tells nobody.
        options["account_key"] = unquote(urlsplit(uri).password or "")
    return _creator(kind, bucket, tuple(sorted(_settings(kind, options, filesystem).items())))


@lru_cache(maxsize=16)
def _creator(
    kind: str, bucket: str, settings: tuple[tuple[str, Any], ...]
) -> Callable[[str, bytes], None]:
    try:
        import obstore
        from obstore import exceptions
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError as error:
        raise PrerequisiteError(
            f"writing to a database on an object store ({kind}) needs the package 'obstore'",
            detail="commits are put on condition that no other writer has put them",
            hint=f"pip install 'rekindle[{EXTRA}]'; reading needs nothing more",
        ) from error
    kinds: dict[str, Any] = {"s3": S3Store, "gcs": GCSStore, "abfs": AzureStore}
    values = dict(settings)
    client = {"allow_http": values.pop("allow_http", False), "timeout": _TIMEOUT}
    store = kinds[kind](bucket, client_options=client, retry_config=_PATIENCE, **values)
    refused = (exceptions.AlreadyExistsError, exceptions.PreconditionError)
    denied = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)

    def create(key: str, data: bytes) -> None:
        try:
            obstore.put(store, key, data, mode="create", use_multipart=False)
        except refused as error:
            raise FileExistsError(f"{bucket}/{key} exists") from error
        except denied as error:
            raise PermissionError(f"{bucket}/{key} may not be written") from error
        except (exceptions.NotFoundError, FileNotFoundError) as error:
            raise FileNotFoundError(f"there is no bucket '{bucket}'") from error
        except (exceptions.BaseError, OSError) as error:
            raise UncertainError(f"no answer to the creation of {bucket}/{key}") from error

    return create


def _settings(kind: str, options: Mapping[str, Any], filesystem: Any) -> dict[str, Any]:
    """The options of an Arrow filesystem in the words of the other client."""
    given: dict[str, Any] = {}
    match kind:
        case "s3":
            if options["role_arn"]:
                raise UnsupportedError(
                    "a database on S3 cannot be written through 'role_arn'",
                    hint="give the role's credentials in the environment, and leave it out",
                )
            given["region"] = filesystem.region
            given["virtual_hosted_style_request"] = options["force_virtual_addressing"]
            given["access_key_id"] = options["access_key"]
            given["secret_access_key"] = options["secret_key"]
            given["session_token"] = options["session_token"]
            given["skip_signature"] = options["anonymous"]
            given |= _endpoint("endpoint", options["scheme"], options["endpoint_override"])
        case "gcs":
            # Without a token it would ask for one, whatever else it is told.
            nobody = "anonymous" if options["anonymous"] else ""
            given["bearer_token"] = options["access_token"] or nobody
            given |= _endpoint("base_url", options["scheme"], options["endpoint_override"])
        case _:
            account, authority = options["account_name"], options["blob_storage_authority"]
            given["account_name"] = account
            given["account_key"] = options["account_key"]
            given["sas_key"] = options["sas_token"]
            given["tenant_id"] = options["tenant_id"]
            given["client_id"] = options["client_id"]
            given["client_secret"] = options["client_secret"]
            if authority and not authority.startswith("."):
                scheme = options["blob_storage_scheme"]
                given |= _endpoint("endpoint", scheme, f"{authority}/{account}")
    return {key: value for key, value in given.items() if value not in ("", None, False)}


def _endpoint(name: str, scheme: str, place: str) -> dict[str, Any]:
    if not place:
        return {}
    url = place if "://" in place else f"{scheme or 'https'}://{place}"
    return {name: url, "allow_http": url.startswith("http://")}
