package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The bill of this test's own binary names every module in it, and is the same twice.
func TestBill(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var one, two bytes.Buffer
	for _, b := range []*bytes.Buffer{&one, &two} {
		if err := run([]string{"sbom", self}, b); err != nil {
			t.Fatal(err)
		}
	}
	if one.String() != two.String() {
		t.Error("two bills of one binary differ")
	}
	var got struct {
		BOMFormat, SpecVersion string
		Components             []struct{ Name, PURL string }
	}
	if err := json.Unmarshal(one.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.BOMFormat != "CycloneDX" || len(got.Components) == 0 || !strings.HasPrefix(got.Components[0].PURL, "pkg:golang/std@1.") {
		t.Errorf("%+v", got)
	}
	if err := run([]string{"sbom", "main.go"}, &one); err == nil {
		t.Error("a text has a bill")
	}
}

// What was signed is verified; a changed file, another key and a signature that is none are not.
func TestSign(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, text []byte) {
		if err := os.WriteFile(in(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, who := range []string{"ours", "theirs"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		write(who+".pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
		write(who+".pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	}
	write("sums", []byte("abc  file\n"))
	var signature bytes.Buffer
	if err := run([]string{"sign", in("ours.pem"), in("sums")}, &signature); err != nil {
		t.Fatal(err)
	}
	write("sums.sig", signature.Bytes())
	write("changed", []byte("abd  file\n"))
	write("none.sig", []byte("***"))
	for _, c := range []struct {
		key, signature, file string
		good                 bool
	}{
		{"ours.pub", "sums.sig", "sums", true},
		{"theirs.pub", "sums.sig", "sums", false},
		{"ours.pub", "sums.sig", "changed", false},
		{"ours.pub", "none.sig", "sums", false},
		{"ours.pem", "sums.sig", "sums", false},
		{"sums", "sums.sig", "sums", false},
	} {
		if err := run([]string{"verify", in(c.key), in(c.signature), in(c.file)}, &signature); (err == nil) != c.good {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := run([]string{"sign", in("sums"), in("sums")}, &signature); err == nil {
		t.Error("signed without a key")
	}
	if err := run(nil, &signature); err == nil {
		t.Error("nothing is a command")
	}
}
