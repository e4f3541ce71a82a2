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

// etcd is the store of one cluster, reachable through a socket that only this user can
// open: there is no port on which its unauthenticated API could be met.
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
	client := url.URL{Scheme: "unix", Path: filepath.Join(dir, "client.sock")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(dir, "peer.sock")} // etcd wants one; nobody calls it

	cfg := embed.NewConfig()
	cfg.Name = "berth"
	cfg.Dir = d.Etcd()
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
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
