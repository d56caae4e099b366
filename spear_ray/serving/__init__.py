"""The scorer API without Ray: what a request holds, what a reply holds, and how errors are told over HTTP."""
