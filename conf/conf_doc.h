/* conf_doc.h -- what the tables say, for people: the reference, the shipped tarn.yaml, the schema. */
#ifndef TARN_CONF_DOC_H
#define TARN_CONF_DOC_H

struct conf_sink;

/* conf/README.md holds this between these two lines. */
#define CONF_DOC_BEGIN "<!-- begin: printed by tarn_conf_gen -->\n"
#define CONF_DOC_END   "<!-- end: printed by tarn_conf_gen -->\n"
void conf_doc_reference(struct conf_sink *to);

/* Every key with its default, and an example where it must be given. */
void conf_doc_yaml(struct conf_sink *to);

/* The same as a JSON Schema, for editors: conf/tarn.schema.json. */
void conf_doc_schema(struct conf_sink *to);

#endif
