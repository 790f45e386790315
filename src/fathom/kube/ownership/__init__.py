"""Who owns which field of an object: server-side apply.

shapes     how a kind's values divide into fields that are owned one by one
paths      sets of fields, as they stand in metadata.managedFields
division   an object, field by field
merging    the fields of one object put into another, and fields taken out of it
owners     the owners after an apply or an update, and who is in conflict
entries    metadata.managedFields, read and written
"""
