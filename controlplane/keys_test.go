package controlplane

import (
	"crypto/x509"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/controlplane/home"
)

func TestKeysAreMadeOnceAndPrivate(t *testing.T) {
	d := home.Dir{Path: t.TempDir()}
	k, err := loadKeys(d)
	if err != nil {
		t.Fatal(err)
	}
	first := read(t, k)
	for name := range first {
		if st, _ := os.Stat(k.file(name)); st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", name, st.Mode())
		}
	}
	again, err := loadKeys(d)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, read(t, again)); diff != "" {
		t.Error("keys changed on the second load:", diff)
	}
}

// A folder of an older Berth lacks the tokens of components that came since.
func TestAnOlderFolderGetsTheNewTokens(t *testing.T) {
	d := home.Dir{Path: t.TempDir()}
	k, err := loadKeys(d)
	if err != nil {
		t.Fatal(err)
	}
	before := read(t, k)
	if err := os.Remove(k.file("berth-scheduler.token")); err != nil {
		t.Fatal(err)
	}
	if k, err = loadKeys(d); err != nil {
		t.Fatal(err)
	}
	after := read(t, k)
	if after["fleet.token"] != before["fleet.token"] {
		t.Error("a token that was there changed")
	}
	if fresh := after["berth-scheduler.token"]; fresh == "" || !strings.Contains(after["tokens.csv"], fresh+",system:berth:scheduler,") {
		t.Error("the new component has no token that the API server knows")
	}
}

func TestACrashWhileMakingKeysStartsOver(t *testing.T) {
	d := home.Dir{Path: t.TempDir()}
	half := d.Keys() + ".new"
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "ca.crt"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := loadKeys(d)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(read(t, k)["ca.crt"], "half") {
		t.Error("a half-made authority was kept")
	}
	if _, err := k.kubeletTLS(); err != nil {
		t.Error(err)
	}
}

func TestKubeletCertificateIsForLoopbackOnly(t *testing.T) {
	k, err := loadKeys(home.Dir{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	tls, err := k.kubeletTLS()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(tls.Certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{DNSName: "localhost", Roots: tls.ClientCAs}); err != nil {
		t.Error(err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{DNSName: "example.com", Roots: tls.ClientCAs}); err == nil {
		t.Error("valid for a name that is not loopback")
	}
}

func TestOnlyLoopback(t *testing.T) {
	open, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := checkLoopback(open); err == nil {
		t.Errorf("%s was accepted", open.Addr())
	}
	local, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	if err := checkLoopback(local); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, k keys) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(k.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[e.Name()] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
