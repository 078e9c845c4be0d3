"""Upload an export to the Hugging Face hub, in one commit: the repository has all of it or none."""

import warnings
from pathlib import Path

from headway import __version__
from headway.errors import InputError
from headway.formats.registry import FORMATS
from headway.hub.download import EXTRA, ID, hub_library, is_hub_id, one_line
from headway.hub.fingerprint import RECORD


def check_push(repository: str, format: str) -> None:
    """Raise InputError, before anything is exported, for a name that is none, a missing library and a missing token."""
    if not FORMATS[format].card:
        pushed = " and ".join(name for name, spec in FORMATS.items() if spec.card)
        raise InputError(f"--push: an export for {format} is not pushed, only those of --to {pushed}.")
    name = ID.fullmatch(repository)
    if name is None or name["revision"] or "--" in repository or ".." in repository:
        raise InputError(f"--push {repository[:200]}: is not the name of a repository; expected OWNER/NAME.")
    try:
        with hub_library(repository) as library:
            token = library.get_token()
    except InputError:
        raise InputError(f"--push {repository}: needs huggingface_hub: {EXTRA}, then run this command again.") from None
    if not token:
        raise InputError(
            f"--push {repository}: there is no token of the hub here; run `hf auth login`, or set HF_TOKEN to one that "
            "may write."
        )


def check_base(repository: str, base: str) -> None:
    """Raise InputError for an adapter of a base that only this machine has."""
    if not is_hub_id(base):
        raise InputError(
            f"--push {repository}: the adapter's base, {base}, is a directory of this machine, which nobody else has; "
            "train it --from an id of the hub, or push the whole model by --to hf."
        )


def push(directory: Path, repository: str, *, public: bool) -> str:
    """Upload a directory; returns the address.  A new repository is private unless ``public``.

    Raises InputError if the hub refuses the name or the token, if an existing repository is public and ``public`` is
    not given, and where the upload is interrupted.  The record of the export, which names paths of this machine, stays
    here.
    """
    with hub_library(repository) as library, warnings.catch_warnings(action="ignore"):  # of what it uploads with
        api = library.HfApi(library_name="headway", library_version=__version__)
        try:
            try:
                private = api.model_info(repository).private
            except library.errors.RepositoryNotFoundError:
                api.create_repo(repository, private=not public, exist_ok=True)
                private = not public
            if not private and not public:
                raise InputError(
                    f"--push {repository}: this repository is public; add --public to push there, or name another."
                )
            message = f"Export of Headway {__version__}"
            api.upload_folder(
                repo_id=repository, folder_path=directory, commit_message=message, ignore_patterns=[RECORD]
            )
        except InputError:
            raise
        except Exception as error:  # the types depend on the versions of the library and of its dependencies
            raise InputError(
                f"--push {repository}: {_reason(error)}; the export is in {directory}, and the repository is as it was."
            ) from None
        return f"{api.endpoint}/{repository}"


def _reason(error: Exception) -> str:
    """What went wrong, in one line."""
    from huggingface_hub import constants, errors

    hub = constants.ENDPOINT
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, so nothing is pushed"
    if status == 401:
        return f"{hub} does not accept the token; run `hf auth login`, or set HF_TOKEN to one that may write"
    if status == 403:
        return f"{hub} refuses it ({one_line(error)}); the token may not write there"
    if isinstance(error, errors.HfHubHTTPError | errors.HFValidationError):
        return f"{hub} refuses it ({one_line(error)})"
    return f"the upload to {hub} was interrupted ({one_line(error.__cause__ or error)}); run this command again"
