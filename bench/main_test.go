package bench

import (
	"io"
	"os"
	"testing"

	"k8s.io/klog/v2"
)

// The client library logs every connection that a killed server breaks; that is what is
// being measured here.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}
