/* fake_python.c: a Python to be preloaded in front of c10drive, of which vramgc finds what it
 * needs. Its lock is held by the program from the second wish for it on, until PyTorch has nothing
 * in its cache any more; then emptying that cache finds nothing. With FAKE_PYTHON_ENDS it ends the
 * thread that wishes for it, as Python up to 3.13 does at its own end. It must not be used by two
 * threads. */
#include "vramgc.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

char _Py_NoneStruct;
static int wishes;

static int cache_is_empty(void) {
    int (*snapshot)(int, struct vramgc_snapshot *);
    struct vramgc_snapshot figures = {.size = sizeof figures};
    *(void **)&snapshot = dlsym(RTLD_DEFAULT, "vramgc_snapshot");
    return snapshot(0, &figures) == 0 && figures.reserved_bytes == 0;
}

/* Whoever waits for the file knows that vramgc waits for the lock. */
int PyGILState_Ensure(void) {
    if (wishes++ == 0)
        return 0;
    close(open(getenv("FAKE_PYTHON_WAITS"), O_CREAT | O_WRONLY, 0600));
    if (getenv("FAKE_PYTHON_ENDS"))
        pthread_exit(NULL);
    while (!cache_is_empty())
        usleep(1000);
    return 0;
}

#define RETURNS(type, name, value)                                                                 \
    type name(void);                                                                               \
    type name(void) {                                                                              \
        return value;                                                                              \
    }
#define OBJECT(name) RETURNS(void *, name, &_Py_NoneStruct)
#define NOTHING(name)                                                                              \
    void name(void);                                                                               \
    void name(void) {}

int PyGILState_Ensure(void);
RETURNS(int, Py_IsInitialized, 1)
RETURNS(int, PyGILState_Check, 0)
RETURNS(int, PyObject_IsTrue, 1)
RETURNS(double, PyFloat_AsDouble, 0)
RETURNS(const char *, PyUnicode_AsUTF8AndSize, "fake")
OBJECT(PyImport_GetModuleDict)
OBJECT(Py_BuildValue)
OBJECT(PyDict_GetItemString)
OBJECT(PyObject_Call)
OBJECT(PyObject_GetAttrString)
OBJECT(PyObject_CallFunctionObjArgs)
OBJECT(PyObject_GetItem)
OBJECT(PyCFunction_NewEx)
OBJECT(PyEval_SaveThread)
NOTHING(PyGILState_Release)
NOTHING(Py_DecRef)
NOTHING(PyErr_Clear)
NOTHING(PyEval_RestoreThread)
