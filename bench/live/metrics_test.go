package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const scraped = `# HELP apiserver_request_total requests
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="binding",verb="POST",version="v1"} 40
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="binding",verb="POST",version="v1"} 2
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 40
apiserver_request_total{code="201",component="apiserver",dry_run="",group="events.k8s.io",resource="events",scope="resource",subresource="",verb="POST",version="v1"} 30
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 7
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 3
process_open_fds 99
`

func TestWritesOfASchedulerAlone(t *testing.T) {
	got, err := readWrites(strings.NewReader(scraped))
	if err != nil {
		t.Fatal(err)
	}
	want := writes{"POST pods/binding": 42, "POST pods": 40, "POST events": 30, "PUT leases": 7}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := got.byScheduler(); n != 72 {
		t.Errorf("%v writes by the scheduler, want 42 bindings, refused ones too, and 30 events", n)
	}
}

func TestWritesSince(t *testing.T) {
	before := writes{"POST events": 10, "PUT leases": 7}
	after := writes{"POST events": 15, "PUT leases": 7, "PATCH pods/status": 1}
	if diff := cmp.Diff(writes{"POST events": 5, "PATCH pods/status": 1}, after.since(before)); diff != "" {
		t.Error(diff)
	}
}

func TestWritesRefusesWhatItCannotRead(t *testing.T) {
	if _, err := readWrites(strings.NewReader("apiserver_request_total{verb=\"POST\"} many\n")); err == nil {
		t.Error("read")
	}
}
