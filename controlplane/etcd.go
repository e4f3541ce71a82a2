package controlplane

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/berth-dev/berth/controlplane/home"
)

// etcd is the store of one cluster. It asks nobody for credentials, so the way to it is one socket file that only
// this user can open. It has no listener for peers: who can talk to that one can write anything into the store.
type etcd struct {
	server    *embed.Etcd
	endpoint  string
	socketDir string
}

const (
	// etcdStart bounds the replay of the log after a crash.
	etcdStart = 60 * time.Second
	// etcdQuota is the largest database; the API server compacts every five minutes.
	etcdQuota = 8 << 30
	// maxSocketPath is what fits into the kernel's sockaddr_un, less the file names.
	maxSocketPath = 100 - len("/client.sock")
)

func startEtcd(d home.Dir, ephemeral bool, log *os.File) (*etcd, error) {
	dir, err := socketDir(d)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "client.sock")
	client := url.URL{Scheme: "unix", Path: socket}

	cfg := embed.NewConfig()
	cfg.Name = "berth"
	cfg.Dir = d.Etcd()
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	// A single member never dials a peer. It advertises an address because a member is named after one, and listens on
	// none.
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = ephemeral
	cfg.QuotaBackendBytes = etcdQuota
	cfg.SnapshotCount = 10000
	cfg.TickMs, cfg.ElectionMs = 10, 100 // a single member elects itself: no reason to wait
	cfg.Logger = "zap"
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapTo(log))

	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	e := &etcd{server: server, endpoint: client.String(), socketDir: dir}
	// The folder keeps others out from the first moment; the mode does where somebody opens the folder up.
	if err := os.Chmod(socket, 0o600); err != nil {
		e.stop()
		return nil, err
	}
	select {
	case <-server.Server.ReadyNotify():
		return e, nil
	case err := <-server.Err():
		e.stop()
		return nil, err
	case <-time.After(etcdStart):
		e.stop()
		return nil, fmt.Errorf("not ready after %s", etcdStart)
	}
}

func (e *etcd) stop() {
	e.server.Close()
	os.RemoveAll(e.socketDir)
}

// socketDir is the folder for the sockets: inside the data folder, or in the temporary
// one where that path is too long for a socket.
func socketDir(d home.Dir) (string, error) {
	dir := filepath.Join(d.Run(), "etcd")
	if len(dir) <= maxSocketPath {
		return dir, os.MkdirAll(dir, 0o700)
	}
	dir, err := os.MkdirTemp("", "berth-")
	if err == nil && len(dir) > maxSocketPath {
		return "", errors.New("both the data folder and the temporary folder have paths too long for a socket: use a shorter --data")
	}
	return dir, err
}

func zapTo(f *os.File) *zap.Logger {
	enc := zapcore.NewConsoleEncoder(zap.NewProductionEncoderConfig())
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(f), zap.ErrorLevel)).Named("etcd")
}
