"""How the tools are spoken over the Model Context Protocol. With `app.py` and the demo, the only user of mcp."""
