{{- define "windlass.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "windlass.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "windlass.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "windlass.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "windlass.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Selectors must not change over the life of a release. */}}
{{- define "windlass.selector" -}}
app.kubernetes.io/name: {{ include "windlass.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "windlass.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "windlass.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* A digest counts for the image that it is named with alone. */}}
{{- define "windlass.image" -}}
{{- $all := .root.Values.image -}}
{{- $own := default dict .own -}}
{{- $repository := default $all.repository $own.repository -}}
{{- if $own.digest -}}
{{- printf "%s@%s" $repository $own.digest -}}
{{- else if and $all.digest (not $own.repository) (not $own.tag) -}}
{{- printf "%s@%s" $repository $all.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default (default .root.Chart.AppVersion $all.tag) $own.tag) -}}
{{- end -}}
{{- end -}}

{{/* What every command is told of the broker. */}}
{{- define "windlass.env" -}}
- name: WINDLASS_BROKER
  value: {{ required "broker.address is required, such as etcd://etcd-0.etcd:2379,etcd-1.etcd:2379,etcd-2.etcd:2379" .Values.broker.address | quote }}
- name: WINDLASS_NAMESPACE
  value: {{ .Values.namespace | quote }}
{{- with .Values.broker.tls }}
{{- if .existingSecret }}
- name: WINDLASS_BROKER_CA
  value: {{ printf "/etc/windlass/broker-tls/%s" .ca | quote }}
{{- if and .cert .key }}
- name: WINDLASS_BROKER_CERT
  value: {{ printf "/etc/windlass/broker-tls/%s" .cert | quote }}
- name: WINDLASS_BROKER_KEY
  value: {{ printf "/etc/windlass/broker-tls/%s" .key | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.broker.auth }}
{{- if .user }}
- name: WINDLASS_BROKER_USER
  value: {{ .user | quote }}
{{- if .existingSecret }}
- name: WINDLASS_BROKER_PASSWORD_FILE
  value: {{ printf "/etc/windlass/broker-auth/%s" .passwordKey | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "windlass.brokerMounts" -}}
{{- if .Values.broker.tls.existingSecret }}
- name: broker-tls
  mountPath: /etc/windlass/broker-tls
  readOnly: true
{{- end }}
{{- if and .Values.broker.auth.user .Values.broker.auth.existingSecret }}
- name: broker-auth
  mountPath: /etc/windlass/broker-auth
  readOnly: true
{{- end }}
{{- end -}}

{{- define "windlass.brokerVolumes" -}}
{{- if .Values.broker.tls.existingSecret }}
- name: broker-tls
  secret:
    secretName: {{ .Values.broker.tls.existingSecret | quote }}
    defaultMode: 0440
{{- end }}
{{- if and .Values.broker.auth.user .Values.broker.auth.existingSecret }}
- name: broker-auth
  secret:
    secretName: {{ .Values.broker.auth.existingSecret | quote }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{- define "windlass.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "windlass.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Kubernetes waits for a pod as long as a session's grace, 4/15 of the TTL and at most 20 s, and 10 s more for leaving. */}}
{{- define "windlass.terminationGrace" -}}
{{- $ttl := .Values.node.sessionTTL | trimSuffix "s" | int -}}
{{- add (min (div (add (mul $ttl 4) 14) 15) 20) 10 -}}
{{- end -}}

{{/* The name that probes call the server by; it is among its --host. */}}
{{- define "windlass.serveHost" -}}
{{- printf "%s-serve.%s.svc" (include "windlass.fullname" .) .Release.Namespace -}}
{{- end -}}
