/* Placeholder until capture is written: streams never capture. */
#include "capture.h"
#include "graph.h"
bool capture_blocks(struct stream *s){ (void)s; return false; }
CUresult capture_add(struct stream *s, const struct op *op){ (void)s;(void)op; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult capture_forbids_unsafe(void){ return 0; }
CUresult capture_forbids_wait(struct context *c){ (void)c; return 0; }
CUresult capture_forbids_stream(struct stream *c){ (void)c; return 0; }
CUresult capture_record(struct stream *s, struct captured_event *e){ (void)s;(void)e; return CUDA_ERROR_NOT_SUPPORTED; }
void capture_forget(struct captured_event *e){ (void)e; }
CUresult capture_join(struct stream *s, const struct captured_event *e){ (void)s;(void)e; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult capture_isolation(struct stream *s, bool r){ (void)s;(void)r; return CUDA_ERROR_NOT_SUPPORTED; }
void capture_invalidate_graph(struct graph *g){ (void)g; }
CUresult graph_allocate(struct stream *s, size_t b, struct block **o){ (void)s;(void)b;(void)o; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult graph_free(struct stream *s, struct block *b){ (void)s;(void)b; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuStreamIsCapturing(CUstream h,CUstreamCaptureStatus*s){ (void)h; *s=CU_STREAM_CAPTURE_STATUS_NONE; return 0; }
CUresult cuStreamGetCaptureInfo_v2(CUstream h,CUstreamCaptureStatus*s,cuuint64_t*i,CUgraph*g,const CUgraphNode**d,size_t*n){ (void)h;(void)i;(void)g;(void)d; *s=0; if(n)*n=0; return 0; }
CUresult cuStreamGetCaptureInfo_v3(CUstream h,CUstreamCaptureStatus*s,cuuint64_t*i,CUgraph*g,const CUgraphNode**d,const CUgraphEdgeData**e,size_t*n){ (void)h;(void)i;(void)g;(void)d;(void)e; *s=0; if(n)*n=0; return 0; }
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*m){ static _Thread_local CUstreamCaptureMode c; CUstreamCaptureMode t=*m; *m=c; c=t; return 0; }
