package scheduler

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine/why"
)

// The secret of marks is made once and read by whoever schedules; without one marks are of the process alone, and still
// nothing that can be guessed.
func TestMarksAreOfTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		read := func() string {
			s, err := newScheduler(w.client, Options{queues: w.queues}.normal())
			if err != nil {
				t.Fatal(err)
			}
			s.readSecret(t.Context())
			return s.marks.Mark("team/x")
		}
		first := read()
		if err := makeMarks(t.Context(), w.client); err != nil {
			t.Fatal(err)
		}
		if again := read(); again != first {
			t.Errorf("%s is not known again: %s", first, again)
		}
		secrets := w.client.CoreV1().Secrets(leaseNamespace)
		if err := secrets.Delete(t.Context(), marksName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		mine := read()
		if mine == first || mine == read() || mine == why.NewMarker(nil).Mark("team/x") {
			t.Errorf("without a secret: %s", mine)
		}
		if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: named(leaseNamespace, marksName), Data: map[string][]byte{marksKey: []byte("short")}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if short := read(); short == why.NewMarker([]byte("short")).Mark("team/x") {
			t.Error("a secret that can be guessed is used")
		}
	})
}
