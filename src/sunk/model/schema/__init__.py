"""A custom resource is declared once, as structs; everything that others need to know about it is written from them.

The same field is known in four places: the record that our code reads, the CustomResourceDefinition that the API
server checks and fills in by, the values.schema.json that Helm checks by, and the description that `kubectl explain`
shows. Written four times they drift apart, and each drift is a value that one side takes and the other does not. So
there is one source, and `read` turns it into a tree (`shape`) of which every schema is a view:

    Struct  ── reading ──>  Shape  ── structural, crd ──>  CustomResourceDefinition
                                   ── values ───────────>  values.schema.json

`vocabulary` is what one writes in a struct, `kind` what one says about a resource. Refused were msgspec's own
`json.schema`, whose references and unions the API server does not take, and a schema written by hand with structs
generated from it: types are read far more often than schemas.

What the schemas cannot promise: a whole number of more than 64 bits and a time without a zone are good for msgspec and
refused by the API server; doubles in a set or a keyed list likewise. An unknown field is refused only where the request
asks for strict validation; otherwise the API server drops it with a warning.
"""
