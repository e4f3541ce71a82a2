package stream

import (
	"errors"
	"io"
	"net/http"
)

// statusError is an error that knows its HTTP status.
type statusError struct {
	status int
	msg    string
}

func (e *statusError) Error() string { return e.msg }

// NotFound is the error for a pod or container that is not here (404).
func NotFound(msg string) error { return &statusError{status: http.StatusNotFound, msg: msg} }

// BadRequest is the error for a request that cannot be served as it stands (400), such as
// the previous log of a container that never restarted.
func BadRequest(msg string) error { return &statusError{status: http.StatusBadRequest, msg: msg} }

// errStopping turns away what arrives while the Server stops.
var errStopping = &statusError{status: http.StatusServiceUnavailable, msg: "the kubelet endpoint is stopping"}

// writeError answers with err's status and its bare text, which the API server puts into the
// Status object it returns: a trailing newline would show up in kubectl's message.
func writeError(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if known, ok := errors.AsType[*statusError](err); ok {
		status = known.status
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, err.Error())
}
