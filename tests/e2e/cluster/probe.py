"""Asks a server on this machine whether it is ready; used while components start."""

import http.client
import ssl
import urllib.error
import urllib.request
from pathlib import Path


def answers(url: str, *, authority: Path | None = None, token: str = "") -> bool:
    """Whether `url` answers 200 within two seconds; the certificate is checked against the file `authority`."""
    try:
        context = ssl.create_default_context(cafile=str(authority)) if authority else None
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(request, timeout=2) as answer:
            return bool(answer.status == 200)
    except ssl.SSLCertVerificationError:
        raise
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        if isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError):
            raise
        return False
