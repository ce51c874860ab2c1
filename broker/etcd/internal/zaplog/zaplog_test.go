package zaplog_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/windlass-go/windlass/broker/etcd/internal/zaplog"
)

func TestMessagesKeepTheirFieldsAndGetANewLevel(t *testing.T) {
	var out bytes.Buffer
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})
	level := func(e zapcore.Entry) slog.Level {
		if e.Message == "noise" {
			return slog.LevelDebug
		}
		return slog.LevelWarn
	}
	log := zaplog.New(slog.New(handler), level, nil).With(zap.String("member", "m1"))
	log.Error("noise")
	log.Info("news", zap.Int("b", 2), zap.Int("a", 1))
	if got := out.String(); strings.Contains(got, "noise") || !strings.Contains(got, "level=WARN msg=news member=m1 a=1 b=2") {
		t.Error(got)
	}
}

func TestWhatIsFatalIsSaidEvenWithoutALogger(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); got != "etcd: disk gone map[path:/data]" {
			t.Error(got)
		}
	}()
	zaplog.New(nil, zaplog.AllDebug, nil).Fatal("disk gone", zap.String("path", "/data"))
}
