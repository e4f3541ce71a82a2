// Command release makes what goes with the archives of a release: a bill of materials read from a binary, and signatures.
// `make dist` calls it. It builds nothing and publishes nothing.
package main

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

const usage = "usage: release sbom BINARY | release sign KEY.pem FILE | release verify PUBLIC.pem SIGNATURE FILE"

func run(args []string, out io.Writer) error {
	switch {
	case len(args) == 2 && args[0] == "sbom":
		info, err := buildinfo.ReadFile(args[1])
		if err != nil {
			return err
		}
		text, err := bill(info)
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	case len(args) == 3 && args[0] == "sign":
		signature, err := sign(args[1], args[2])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, signature)
		return err
	case len(args) == 4 && args[0] == "verify":
		return verify(args[1], args[2], args[3])
	}
	return errors.New(usage)
}

// bill is what a binary was built of, as CycloneDX 1.6. Nothing in it says when: the same binary has the same bill.
func bill(info *debug.BuildInfo) ([]byte, error) {
	type property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	type component struct {
		Type       string     `json:"type"`
		Name       string     `json:"name"`
		Version    string     `json:"version,omitempty"`
		PURL       string     `json:"purl,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	list := []component{{Type: "library", Name: "std", Version: info.GoVersion, PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		list = append(list, component{
			Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version,
			Properties: []property{{"go:sum", m.Sum}},
		})
	}
	root := component{Type: "application", Name: info.Path}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "-trimpath":
			root.Properties = append(root.Properties, property{"go:" + s.Key, s.Value})
		}
	}
	text, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": map[string]any{"component": root}, "components": list,
	}, "", "  ")
	return append(text, '\n'), err
}

// sign is the ECDSA signature of the file's SHA-256, in base64: as `cosign sign-blob --key` makes it, and `openssl dgst -sha256
// -verify` reads it after decoding.
func sign(key, file string) (string, error) {
	block, err := pemOf(key)
	if err != nil {
		return "", err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return "", fmt.Errorf("%s: want an ECDSA key, as openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 makes", key)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(text)
	signature, err := ecdsa.SignASN1(rand.Reader, private, digest[:])
	return base64.StdEncoding.EncodeToString(signature), err
}

// verify says what is wrong with the signature of the file.
func verify(public, signature, file string) error {
	block, err := pemOf(public)
	if err != nil {
		return err
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("%s: %w", public, err)
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok {
		return fmt.Errorf("%s: want an ECDSA key", public)
	}
	said, err := os.ReadFile(signature)
	if err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(said)))
	if err != nil {
		return fmt.Errorf("%s: %w", signature, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if digest := sha256.Sum256(text); !ecdsa.VerifyASN1(key, digest[:], raw) {
		return fmt.Errorf("%s is not what was signed in %s", file, signature)
	}
	return nil
}

func pemOf(file string) (*pem.Block, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s: want PEM", file)
	}
	return block, nil
}
