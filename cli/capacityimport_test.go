package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestImportWrites has an import write what the provider says under one name of a manager and the price under another, so that a later
// import without a price does not take the price away; and has a reservation whose object's name another has get another.
func TestImportWrites(t *testing.T) {
	var got []string
	have := map[string]string{"dense": `{"spec": {"provider": "gcp", "id": "projects/lab/dense"}}`}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		name := strings.TrimPrefix(r.URL.Path, "/apis/berth.dev/v1alpha1/reservations/")
		if r.Method == http.MethodGet {
			if have[name] == "" {
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
				return
			}
			fmt.Fprint(w, have[name])
			return
		}
		body, _ := io.ReadAll(r.Body)
		fields := []string{}
		for _, f := range []string{`"instanceType"`, `"price"`, `"state"`} {
			if strings.Contains(string(body), f) {
				fields = append(fields, f)
			}
		}
		got = append(got, fmt.Sprintf("%s by %s: %s", name, r.URL.Query().Get("fieldManager"), strings.Join(fields, " ")))
		fmt.Fprint(w, "{}")
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, id string
		price    *v1alpha1.Price
		want     []string
	}{
		{"new", "projects/lab/new", &v1alpha1.Price{PerInstanceHour: "63"}, []string{`new by berth-import: "instanceType"`, `new/status by berth-import: "state"`, `new by berth-import-price: "price"`}},
		{"new", "projects/lab/new", nil, []string{`new by berth-import: "instanceType"`, `new/status by berth-import: "state"`}},
		{"dense", "projects/LAB/dense", nil, []string{`dense by berth-import: "instanceType"`, `dense/status by berth-import: "state"`}},
		{"dense", "projects/other/dense", nil, []string{`dense-36e12626 by berth-import: "instanceType"`, `dense-36e12626/status by berth-import: "state"`}},
	} {
		got = nil
		r := v1alpha1.Reservation{Spec: v1alpha1.ReservationSpec{Provider: "gcp", ID: c.id, InstanceType: "a3-megagpu-8g", Price: c.price}, Status: v1alpha1.ReservationStatus{State: v1alpha1.ReservationActive}}
		r.Name = c.name
		name, err := applyReservation(t.Context(), client.Discovery().RESTClient(), r)
		if err != nil || !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, name+" ") }) {
			t.Errorf("%s: imported as %q: %v", c.id, name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.id, diff)
		}
	}
}
