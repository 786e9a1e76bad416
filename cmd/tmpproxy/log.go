package main

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger writes records of at least the given level to w, which need not be safe for concurrent use.
func newLogger(w io.Writer, format string, level zapcore.LevelEnabler) *zap.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey, encoding.MessageKey = "time", "message"
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoding.EncodeDuration = zapcore.SecondsDurationEncoder
	encoder := zapcore.NewJSONEncoder(encoding)
	if format == "console" {
		encoding.EncodeLevel = zapcore.CapitalLevelEncoder
		encoding.EncodeDuration = zapcore.StringDurationEncoder
		encoder = zapcore.NewConsoleEncoder(encoding)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level))
}

// levelOf returns the level of a word of log.level.
func levelOf(word string) zapcore.Level {
	level, err := zapcore.ParseLevel(word)
	if err != nil {
		return zapcore.InfoLevel // the configuration admits no other words; a test compares them
	}
	return level
}
