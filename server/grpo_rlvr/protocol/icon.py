"""The server's icon: an SVG in a data address, so that no client fetches anything."""

import base64

from mcp_types import Icon

# A reward curve that rises through a gate.
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 48 48">'
    '<rect width="48" height="48" rx="10" fill="#1f3a5f"/>'
    '<path d="M27 8v32" stroke="#f2b84b" stroke-width="3" stroke-dasharray="5 4"/>'
    '<path d="M7 37c9 0 12-3 17-13s8-12 17-12" fill="none" stroke="#fff" stroke-width="4" stroke-linecap="round"/>'
    "</svg>"
)
ICON = Icon(
    src=f"data:image/svg+xml;base64,{base64.b64encode(SVG.encode()).decode()}", mime_type="image/svg+xml", sizes=["any"]
)
