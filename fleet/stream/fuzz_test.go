package stream

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// request is a GET with any query; nil where there can be none.
func request(path, query string) *http.Request {
	u := url.URL{Scheme: "https", Host: "node", Path: path, RawQuery: query}
	r, err := http.NewRequest(http.MethodGet, u.String(), nil)
	if err != nil {
		return nil
	}
	return r
}

// FuzzOptions sends exec, attach, port-forward and log requests with any query and header, short of a client that
// speaks a streaming protocol: all must be answered with an error, none may reach the backend or panic.
func FuzzOptions(f *testing.F) {
	for _, query := range []string{
		"", "command=id", "command=sh&command=-c&command=x&input=1&output=1&error=1&tty=1", "output=true&tty=1&error=1", "port=80", "port=80&port=0&port=99999",
		"port=-1", "port=%00", "tailLines=-1", "limitBytes=99999999999999999999", "sinceTime=x&sinceSeconds=1", "stream=Stdout&tailLines=3", "%zz", "command=%ff;a=b",
	} {
		f.Add(query, "v4.channel.k8s.io")
		f.Add(query, "SPDY/3.1")
	}
	s := &Server{opts: Options{Backend: &fake{}}}
	handlers := map[string]func(http.ResponseWriter, *http.Request) error{
		"/exec/ns/pod/c": s.exec, "/attach/ns/pod/c": s.attach, "/portForward/ns/pod": s.portForward,
	}
	f.Fuzz(func(t *testing.T, query, protocol string) {
		for path, handle := range handlers {
			r := request(path, query)
			if r == nil {
				return
			}
			r.Header.Set("X-Stream-Protocol-Version", protocol)
			r.Header.Set("Sec-WebSocket-Protocol", protocol)
			w := httptest.NewRecorder()
			if err := handle(w, r); err == nil && w.Code < 400 {
				t.Errorf("%s?%s was answered with %d", path, query, w.Code)
			}
		}
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		opts, err := logOptions(values)
		if err == nil && (opts.TailLines != nil && *opts.TailLines < 0 || opts.LimitBytes != nil && *opts.LimitBytes < 1 || opts.Stream == nil) {
			t.Errorf("%q is accepted as %+v", query, opts)
		}
	})
}
