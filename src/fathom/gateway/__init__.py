"""The gateway: a Service's address, answered. Follows services and endpoints through the API (`gateway/controller`),
makes one table of them (`routes`), picks who gets a connection (`balance`), and carries bytes (`proxy`). What
it measures goes back as the pods' condition `fathom.dev/Serving`. Never here: who is ready; that is the
agent's word.
"""
