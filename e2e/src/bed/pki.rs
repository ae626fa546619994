//! Certificates and kubeconfigs of one cluster. Everything is made anew for each fleet.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::addresses::Addresses;

/// One cluster's authority.
pub(crate) struct Pki {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    pub(crate) ca_pem: String,
}

impl std::fmt::Debug for Pki {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pki").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// A certificate with its key, in PEM.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Pki {
    /// Makes the authority, and writes what the API server reads into `folder`: `ca.crt`,
    /// `server.crt`, `server.key`, `service-account.key`, `service-account.pub`.
    pub(crate) fn create(folder: &Path, addresses: Addresses) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name = name("the test bed", None);
        let ca_pem = params.self_signed(&key)?.pem();
        let pki = Self { folder: folder.to_owned(), issuer: Issuer::new(params, key), ca_pem };
        pki.write("ca.crt", &pki.ca_pem)?;

        let names = [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ];
        let own = [IpAddr::from([127, 0, 0, 1]), addresses.node().into(), addresses.api_service().into()];
        let names = names.iter().map(|name| (*name).to_owned()).chain(own.iter().map(IpAddr::to_string)).collect();
        let server = pki.sign(name("kube-apiserver", None), names, ExtendedKeyUsagePurpose::ServerAuth)?;
        pki.write("server.crt", &server.certificate)?;
        pki.write("server.key", &server.key)?;

        let tokens = KeyPair::generate()?;
        pki.write("service-account.key", &tokens.serialize_pem())?;
        pki.write("service-account.pub", &tokens.public_key_pem())?;
        Ok(pki)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        std::fs::write(self.file(name), text).with_context(|| format!("write {name}"))
    }

    fn sign(
        &self,
        subject: DistinguishedName,
        names: Vec<String>,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = subject;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }

    /// A client certificate: a user, in a group if given.
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Result<Identity> {
        self.sign(name(user, group), Vec::new(), ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// Writes a kubeconfig for a client inside the namespaces, with an identity made for it.
    pub(crate) fn kubeconfig(&self, addresses: Addresses, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let identity = self.client(user, group)?;
        let file = user.rsplit(':').next().unwrap_or(user);
        for (kind, text) in [("crt", &identity.certificate), ("key", &identity.key)] {
            self.write(&format!("{file}.{kind}"), text)?;
        }
        let path = self.file(&format!("{file}.kubeconfig"));
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "bed", "cluster": {
                "server": format!("https://{}", addresses.api()),
                "certificate-authority": self.file("ca.crt"),
            }}],
            "users": [{"name": user, "user": {
                "client-certificate": self.file(&format!("{file}.crt")),
                "client-key": self.file(&format!("{file}.key")),
            }}],
            "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": user}}],
            "current-context": "bed",
        });
        std::fs::write(&path, serde_json::to_vec_pretty(&config)?)?;
        Ok(path)
    }
}

fn name(common: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name
}

/// A client for a kubeconfig of ours.
pub(crate) async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}
