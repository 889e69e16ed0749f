/* vcl_doc.h -- the language's reference, printed from the rows that the compiler obeys. */
#ifndef TARN_VCL_DOC_H
#define TARN_VCL_DOC_H

/* vcl-lite/README.md holds this between these two lines. */
#define VCL_DOC_BEGIN "<!-- begin: printed by tarn_vcl_gen -->\n"
#define VCL_DOC_END   "<!-- end: printed by tarn_vcl_gen -->\n"

/* `write` is called with pieces of Markdown. */
void vcl_doc_reference(void (*write)(void *ctx, const char *text), void *ctx);

#endif
